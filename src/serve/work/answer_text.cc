#include "serve/work/answer_text.h"

#include <algorithm>
#include <utility>

namespace llada::serve {
namespace {

constexpr std::string_view kMarks = "\xF8\xF9\xFA";
static_assert(kMarks.size() == std::size(kGemmaMarks) && kMarks.starts_with(kGemmaCall) &&
              kMarks.substr(1).starts_with(kGemmaCallEnd) && kMarks.ends_with(kGemmaQuote));

}  // namespace

void merge(StepNote& note, StepNote later) {
  for (const decode::Edit& edit : later.edits) {
    const auto same = std::ranges::find(note.edits, edit.position, &decode::Edit::position);
    same == note.edits.end() ? note.edits.push_back(edit) : void(*same = edit);
  }
  for (decode::Edit& edit : note.edits) edit.from = -1;  // of a canvas that nobody was shown
  later.edits = std::move(note.edits);
  note = std::move(later);
}

AnswerText::AnswerText(const Tokenizer& tokenizer, const ChatFormat& format, int64_t begin, int64_t length,
                       std::vector<int32_t> end_ids, std::vector<std::string> stop, Thoughts thoughts, bool calls)
    : tokenizer_(tokenizer),
      format_(format),
      begin_(begin),
      end_ids_(std::move(end_ids)),
      stop_(std::move(stop)),
      beginning_(thoughts),
      tokens_(static_cast<size_t>(length), -1),
      final_(tokenizer, format, thoughts, calls),
      stream_(calls ? kMarks : std::string_view()) {}

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
  for (; decoded_ < end; ++decoded_) final_.add(tokens_[static_cast<size_t>(decoded_)]);
  const std::string& said = final_.said;
  // Up to the first stop text, or to where one may have begun.
  size_t most = said.size();
  for (const std::string& stop : stop_) {
    if (const size_t at = said.find(stop); at != std::string::npos) most = std::min(most, at);
    for (size_t n = std::min(stop.size() - 1, said.size()); n > 0; --n)
      if (std::string_view(said).ends_with(std::string_view(stop).substr(0, n))) {
        most = std::min(most, said.size() - n);
        break;
      }
  }
  if (most > given_) {
    stream_.append(std::string_view(said).substr(given_, most - given_));
    given_ = most;
  }
  return stream_.take();
}

std::string AnswerText::take_thoughts() {
  thoughts_given_ += final_.thought.size();
  thoughts_.append(std::exchange(final_.thought, {}));
  return thoughts_.take();
}

std::string AnswerText::finish_thoughts(std::string_view thoughts) {
  if (thoughts.size() > thoughts_given_) thoughts_.append(thoughts.substr(thoughts_given_));
  thoughts_given_ = std::max(thoughts_given_, thoughts.size());
  return thoughts_.flush();
}

std::string AnswerText::finish(std::string_view answer) {
  if (answer.size() > given_) stream_.append(answer.substr(given_));
  given_ = std::max(given_, answer.size());
  return stream_.flush();
}

std::string AnswerText::whole() const {
  const auto answer = std::span(tokens_).first(static_cast<size_t>(answer_end(std::ssize(tokens_))));
  std::string text = decided_parts(tokenizer_, format_, answer, beginning_, kHole).said;
  for (const std::string& stop : stop_)
    if (const size_t at = text.find(stop); at != std::string::npos) text.resize(at);
  return to_valid_utf8(text);
}

}  // namespace llada::serve
