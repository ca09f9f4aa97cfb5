// The text of an answer while it is decoded, for streams. Two views of it: the text that can no longer change, piece by
// piece, and everything that is decided so far.
#pragma once
#include <string>
#include <vector>

#include "engine/request.h"
#include "text/thoughts.h"
#include "text/utf8.h"

namespace llada::serve {

// One step, as far as a stream needs it.
struct StepNote {
  int64_t step = 0, committed = 0, masks_left = 0, forwards = 0, rows = 0;
  std::vector<decode::Edit> edits;
};

// Merges `later` into `note`, as if both had been one step.
void merge(StepNote& note, StepNote later);

class AnswerText {
 public:
  // The answer stands in [begin, begin + length) of the canvas. end_ids: tokens that end it; none for infilling.
  // calls: it stands beside tools; the marks of Gemma's calls are bytes of its text
  // (text/call_syntax.h).
  AnswerText(const Tokenizer& tokenizer, const ChatFormat& format, int64_t begin, int64_t length,
             std::vector<int32_t> end_ids, std::vector<std::string> stop, Thoughts thoughts = Thoughts::none,
             bool calls = false);

  void apply(const StepNote& note);
  // The next piece of final text, valid UTF-8 but for those bytes. It ends before any stop text, and before text that
  // may be the beginning of one.
  std::string take();
  // The thoughts in the tokens of the last take(), which are no part of the answer.
  std::string take_thoughts();
  // The rest of the thoughts. thoughts: all of them.
  std::string finish_thoughts(std::string_view thoughts);
  int64_t tokens_given() const { return decoded_; }  // final ones so far
  // The rest of the answer. answer: all of it, which begins with the pieces so far.
  std::string finish(std::string_view answer);
  // The decided text, before any stop text, with kHole for masks that have text behind them.
  std::string whole() const;

 private:
  int64_t answer_end(int64_t most) const;

  const Tokenizer tokenizer_;
  const ChatFormat format_;
  const int64_t begin_;
  const std::vector<int32_t> end_ids_;
  const std::vector<std::string> stop_;
  const Thoughts beginning_;     // of the answer
  std::vector<int32_t> tokens_;  // -1: masked
  int64_t committed_ = 0, decoded_ = 0;
  AnswerParts final_;                      // of the committed tokens
  size_t given_ = 0, thoughts_given_ = 0;  // bytes that were taken of the text, and of the thoughts
  Utf8Stream stream_, thoughts_;
};

}  // namespace llada::serve
