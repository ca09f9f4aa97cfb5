#include "text/thoughts.h"

namespace llada {

void AnswerParts::add(int32_t token) {
  if (begin_ >= 0 && (token == begin_ || token == end_)) {
    thinks_ = token == begin_;
    named_ = !thinks_;
    return;
  }
  const std::string text = tokenizer_.decode({&token, 1});
  if (!thinks_) {
    said += text;
  } else if (named_) {
    thought += text;
  } else if (const size_t line = text.find('\n'); line != std::string::npos) {
    thought += text.substr(line + 1);
    named_ = true;
  }
}

}  // namespace llada
