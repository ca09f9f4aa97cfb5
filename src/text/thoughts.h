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

// Whether an answer may begin with thoughts, or is inside of them from its first token on: the prompt has opened them.
enum class Thoughts { none, may_begin, open };
Thoughts thoughts_behind(const ChatFormat& format, std::span<const int32_t> prompt);

class AnswerParts {
 public:
  // calls: the marks of Gemma's calls are said, as the bytes that stand for them (call_syntax.h).
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

// An answer of which some tokens (-1) are not decided: `hole` for each of them that has said text behind it. Where it
// may begin with thoughts, and its first token is not decided, the text before the first token that opens or closes a
// channel is in neither part.
AnswerParts decided_parts(const Tokenizer& tokenizer, const ChatFormat& format, std::span<const int32_t> answer,
                          Thoughts thoughts, std::string_view hole, bool calls = false);

}  // namespace llada
