#include "text/thoughts.h"

#include <algorithm>
#include <utility>

namespace llada {

Thoughts thoughts_behind(const ChatFormat& format, std::span<const int32_t> prompt) {
  if (format.thought_begin < 0) return Thoughts::none;
  if (!prompt.empty() && prompt.back() == format.thought_end) return Thoughts::none;
  const auto is_marker = [&](int32_t token) { return token == format.thought_begin || token == format.thought_end; };
  const auto last = std::find_if(prompt.rbegin(), prompt.rend(), is_marker);
  return last != prompt.rend() && *last == format.thought_begin ? Thoughts::open : Thoughts::may_begin;
}

AnswerParts::AnswerParts(const Tokenizer& tokenizer, const ChatFormat& format, Thoughts thoughts, bool calls)
    : tokenizer_(tokenizer),
      begin_(format.thought_begin),
      end_(format.thought_end),
      thinks_(thoughts == Thoughts::open) {
  if (!calls || format.calls != CallForm::gemma) return;
  for (const auto& [byte, name] : kGemmaMarks)
    if (const auto id = tokenizer.find_control(name)) marks_.emplace_back(*id, byte);
}

void AnswerParts::add(int32_t token) {
  if (begin_ >= 0 && (token == begin_ || token == end_)) {
    thinks_ = token == begin_;
    named_ = !thinks_;
    return;
  }
  const auto mark = std::ranges::find(marks_, token, &std::pair<int32_t, char>::first);
  const std::string text = mark != marks_.end() ? std::string(1, mark->second) : tokenizer_.decode({&token, 1});
  if (!thinks_) {
    said += text;
  } else if (named_) {
    thought += text;
  } else if (const size_t line = text.find('\n'); line != std::string::npos) {
    thought += text.substr(line + 1);
    named_ = true;
  }
}

AnswerParts decided_parts(const Tokenizer& tokenizer, const ChatFormat& format, std::span<const int32_t> answer,
                          Thoughts thoughts, std::string_view hole, bool calls) {
  AnswerParts parts(tokenizer, format, thoughts, calls);
  const auto is_marker = [&](int32_t token) { return token == format.thought_begin || token == format.thought_end; };
  if (thoughts == Thoughts::may_begin && format.thought_begin >= 0 && !answer.empty() && answer.front() < 0)
    answer = {std::ranges::find_if(answer, is_marker), answer.end()};
  std::string holes;
  for (const int32_t token : answer) {
    if (token < 0) {
      if (!parts.thinks()) holes += hole;
      continue;
    }
    if (!parts.thinks()) parts.said += std::exchange(holes, {});
    parts.add(token);
  }
  return parts;
}

}  // namespace llada
