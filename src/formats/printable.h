// Names and values from untrusted files, made fit for one line of an error message.
#pragma once
#include <string>
#include <string_view>

namespace llada {

// Well-formed UTF-8 stays; control characters, line separators and stray bytes become \xNN; the result is cut (with
// "...") after `limit` bytes of input.
std::string printable(std::string_view text, size_t limit = 100);

}  // namespace llada
