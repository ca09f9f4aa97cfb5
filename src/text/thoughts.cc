#include "text/thoughts.h"

#include <algorithm>
#include <utility>

namespace llada {

AnswerParts::AnswerParts(const Tokenizer& tokenizer, const ChatFormat& format, bool calls)
    : tokenizer_(tokenizer), begin_(format.thought_begin), end_(format.thought_end) {
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
                          bool thinks, std::string_view hole, bool calls) {
  AnswerParts parts(tokenizer, format, calls);
  const auto is_marker = [&](int32_t token) { return token == format.thought_begin || token == format.thought_end; };
  if (thinks && format.thought_begin >= 0 && !answer.empty() && answer.front() < 0)
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
