// UTF-8 as in RFC 3629: no surrogates, no overlong forms, nothing above U+10FFFF.
#pragma once
#include <string>
#include <string_view>

namespace llada {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

std::string_view trimmed(std::string_view text);  // without ASCII's white space around it

struct Utf8Unit {
  int length = 0;           // bytes to step over, at least 1
  char32_t code_point = 0;  // when valid
  bool valid = false;
  bool incomplete = false;  // the text ended inside a sequence that more bytes could complete
};

// The unit at text[0]; text is not empty. For an invalid one, length is the longest prefix that some valid sequence
// starts with (Unicode's maximal subpart), so that it becomes one U+FFFD.
Utf8Unit utf8_unit(std::string_view text);

void append_utf8(std::string& out, char32_t code_point);

// Invalid bytes become U+FFFD; valid text comes back as it is.
std::string to_valid_utf8(std::string_view bytes);

// A name from a file for an error line: in double quotes, control characters and invalid bytes escaped, cut
// at 60 bytes.
std::string in_quotes(std::string_view text);

// Turns pieces of bytes that arrive at any boundary into text that a terminal or a JSON string can take. A token may
// end in the middle of a character, so the tail waits until the next token completes it.
class Utf8Stream {
 public:
  // kept: bytes of no UTF-8 that pass as they are.
  explicit Utf8Stream(std::string_view kept = {}) : kept_(kept) {}
  void append(std::string_view bytes) { pending_ += bytes; }

  // Everything up to the last complete character; bytes that no continuation can make valid are U+FFFD. At
  // most three bytes stay behind.
  std::string take();

  // take(), and the unfinished tail as one U+FFFD. The stream is empty afterwards.
  std::string flush();

 private:
  std::string valid(std::string_view bytes) const;

  std::string_view kept_;
  std::string pending_;
};

}  // namespace llada
