// The two parts of an answer of a model that thinks: its text, and its thoughts. The thoughts stand between two control
// tokens, behind the name of that channel and a line end ("thought\n"). Other models' answers are all text.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_template.h"

namespace llada {

// none: the answer is text alone. may_begin: it may begin with thoughts. open: its first token is one of thoughts.
enum class Thoughts { none, may_begin, open };
Thoughts thoughts_behind(const ChatFormat& format, std::span<const int32_t> prompt);

class AnswerParts {
 public:
  // calls: control tokens of Gemma's tool calls become bytes of `said` (call_syntax.h); otherwise they are no text.
  AnswerParts(const Tokenizer& tokenizer, const ChatFormat& format, Thoughts thoughts, bool calls = false);

  void add(int32_t token);
  bool thinks() const { return thinks_; }  // inside a channel that is not closed

  std::string said, thought;  // bytes so far

 private:
  const Tokenizer tokenizer_;
  const int32_t begin_, end_;                    // -1: the model does not think
  std::vector<std::pair<int32_t, char>> marks_;  // of calls
  bool thinks_ = false, named_ = true;
};

// The parts of an answer whose token -1 is an undecided position. Each of these is a `hole` in the text, unless no text
// follows it; thoughts have no holes. Where thoughts may begin and the first token is undecided, nobody knows the part
// of the text before the first channel marker: it is left out.
AnswerParts decided_parts(const Tokenizer& tokenizer, const ChatFormat& format, std::span<const int32_t> answer,
                          Thoughts thoughts, std::string_view hole, bool calls = false);

}  // namespace llada
