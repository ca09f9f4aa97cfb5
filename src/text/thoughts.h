// The two parts of an answer of a model that thinks: what it says, and what it thinks between two control tokens,
// behind the name of that channel and a line end ("thought\n"). Other models' answers are what is said.
#pragma once
#include <cstdint>
#include <string>

#include "text/chat_template.h"

namespace llada {

class AnswerParts {
 public:
  AnswerParts(const Tokenizer& tokenizer, const ChatFormat& format)
      : tokenizer_(tokenizer), begin_(format.thought_begin), end_(format.thought_end) {}

  void add(int32_t token);
  bool thinks() const { return thinks_; }  // inside a channel that is not closed

  std::string said, thought;  // bytes so far

 private:
  const Tokenizer tokenizer_;
  const int32_t begin_, end_;  // -1: the model does not think
  bool thinks_ = false, named_ = true;
};

}  // namespace llada
