#include "formats/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace llada {
namespace {

// Length of the printable UTF-8 sequence at the start of `text`; 0 when the first byte has to be escaped.
size_t printable_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || length > text.size()) return 0;
  uint32_t code = first & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0u) != 0x80u) return 0;
    code = (code << 6) | (byte(i) & 0x3fu);
  }
  const uint32_t smallest = length == 2 ? 0xa0u : length == 3 ? 0x800u : 0x10000u;  // below U+00A0: C1 controls
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  const bool separator = code == 0x2028 || code == 0x2029;
  return code < smallest || code > 0x10ffff || surrogate || separator ? 0 : length;
}

}  // namespace

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  size_t done = 0;
  while (done < text.size() && done < limit) {
    const size_t length = printable_sequence(text.substr(done, 4));
    if (length == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[done]));
    } else {
      out += text.substr(done, length);
    }
    done += std::max<size_t>(length, 1);
  }
  if (done < text.size()) out += "...";
  return out;
}

}  // namespace llada
