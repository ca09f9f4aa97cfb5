#include "serve/answer_text.h"

#include <algorithm>

namespace llada::serve {

void merge(StepNote& note, StepNote later) {
  for (const decode::Edit& edit : later.edits) {
    const auto same = std::ranges::find(note.edits, edit.position, &decode::Edit::position);
    same == note.edits.end() ? note.edits.push_back(edit) : void(*same = edit);
  }
  later.edits = std::move(note.edits);
  note = std::move(later);
}

AnswerText::AnswerText(const Tokenizer& tokenizer, int64_t begin, int64_t length, std::vector<int32_t> end_ids,
                       std::vector<std::string> stop)
    : tokenizer_(tokenizer),
      begin_(begin),
      end_ids_(std::move(end_ids)),
      stop_(std::move(stop)),
      tokens_(static_cast<size_t>(length), -1) {}

void AnswerText::apply(const StepNote& note) {
  for (const decode::Edit& edit : note.edits) {
    const int64_t at = edit.position - begin_;
    if (at < 0 || at >= std::ssize(tokens_)) continue;
    tokens_[static_cast<size_t>(at)] = edit.state == decode::TokenState::masked ? -1 : edit.token;
  }
  committed_ = std::clamp<int64_t>(note.committed, committed_, std::ssize(tokens_));
}

// Where the first token that ends the answer stands, of the first `most`.
int64_t AnswerText::answer_end(int64_t most) const {
  const auto ends = [&](int32_t token) { return std::ranges::find(end_ids_, token) != end_ids_.end(); };
  return std::find_if(tokens_.begin(), tokens_.begin() + most, ends) - tokens_.begin();
}

std::string AnswerText::take() {
  const int64_t end = answer_end(committed_);
  const std::span tokens(tokens_);
  if (end > decoded_)
    final_ += tokenizer_.decode(tokens.subspan(static_cast<size_t>(decoded_), static_cast<size_t>(end - decoded_)));
  decoded_ = std::max(decoded_, end);
  // Up to the first stop text, or to where one may have begun.
  size_t most = final_.size();
  for (const std::string& stop : stop_) {
    if (const size_t at = final_.find(stop); at != std::string::npos) most = std::min(most, at);
    for (size_t n = std::min(stop.size() - 1, final_.size()); n > 0; --n)
      if (std::string_view(final_).ends_with(std::string_view(stop).substr(0, n))) {
        most = std::min(most, final_.size() - n);
        break;
      }
  }
  if (most > given_) {
    stream_.append(std::string_view(final_).substr(given_, most - given_));
    given_ = most;
  }
  return stream_.take();
}

std::string AnswerText::finish(std::string_view answer) {
  if (answer.size() > given_) stream_.append(answer.substr(given_));
  given_ = std::max(given_, answer.size());
  return stream_.flush();
}

std::string AnswerText::whole() const {
  const int64_t end = answer_end(std::ssize(tokens_));
  std::string text, holes;
  for (int64_t i = 0; i < end; ++i) {
    const int32_t token = tokens_[static_cast<size_t>(i)];
    if (token < 0) {
      holes += kHole;
    } else {
      text += holes + tokenizer_.decode({&token, 1});
      holes.clear();
    }
  }
  for (const std::string& stop : stop_)
    if (const size_t at = text.find(stop); at != std::string::npos) text.resize(at);
  return to_valid_utf8(text);
}

}  // namespace llada::serve
