// Utf8Stream turns pieces of bytes that arrive at any boundary into text that a terminal or a JSON string can
// take. A token may end in the middle of a character, so the tail waits until the next token completes it.
#pragma once
#include <string>
#include <string_view>

#include "text/utf8.h"

namespace llada {

class Utf8Stream {
 public:
  void append(std::string_view bytes) { pending_ += bytes; }

  // Everything up to the last complete character; bytes that no continuation can make valid are U+FFFD. At
  // most three bytes stay behind.
  std::string take();

  // take(), and the unfinished tail as one U+FFFD. The stream is empty afterwards.
  std::string flush();

 private:
  std::string pending_;
};

}  // namespace llada
