#include "text/utf8.h"

#include <fmt/format.h>
#include <utf8proc.h>

namespace llada {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

Utf8Unit utf8_unit(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {1, first, true, false};
  if (first < 0xC2 || first > 0xF4) return {1, 0, false, false};
  const int length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  char32_t code_point = first & (0x7Fu >> length);
  for (int i = 1; i < length; ++i) {
    if (static_cast<size_t>(i) == text.size()) return {i, 0, false, true};
    const uint8_t next = byte(i);
    uint8_t low = 0x80, high = 0xBF;
    if (i == 1) {  // the second byte excludes overlong forms, surrogates and values above U+10FFFF
      if (first == 0xE0) low = 0xA0;
      if (first == 0xED) high = 0x9F;
      if (first == 0xF0) low = 0x90;
      if (first == 0xF4) high = 0x8F;
    }
    if (next < low || next > high) return {i, 0, false, false};
    code_point = (code_point << 6) | (next & 0x3Fu);
  }
  return {length, code_point, true, false};
}

void append_utf8(std::string& out, char32_t c) {
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
  out.append(bytes, bytes + size);
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8Unit unit = utf8_unit(bytes);
    out += unit.valid ? bytes.substr(0, unit.length) : kReplacement;
    bytes.remove_prefix(unit.length);
  }
  return out;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  while (!text.empty() && out.size() < 60) {
    const Utf8Unit unit = utf8_unit(text);
    // U+0080..U+009F, U+2028 and U+2029 also end lines in some terminals and viewers.
    const bool breaks_line = unit.code_point < 0x20 || (unit.code_point >= 0x7F && unit.code_point < 0xA0) ||
                             unit.code_point == 0x2028 || unit.code_point == 0x2029;
    if (unit.valid && !breaks_line) {
      out += text.substr(0, unit.length);
    } else {
      for (int i = 0; i < unit.length; ++i) out += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[i]));
    }
    text.remove_prefix(unit.length);
  }
  out += text.empty() ? "\"" : "...\"";
  return out;
}

std::string Utf8Stream::valid(std::string_view bytes) const {
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = std::min(bytes.find_first_of(kept_, at), bytes.size());
    text += to_valid_utf8(bytes.substr(at, end - at));
    if (end < bytes.size()) text += bytes[end];
    at = end + 1;
  }
  return text;
}

std::string Utf8Stream::take() {
  size_t complete = pending_.size();
  // An unfinished sequence is at most three bytes long, so its lead byte is among the last three.
  for (size_t back = 1; back <= 3 && back <= pending_.size(); ++back) {
    const size_t at = pending_.size() - back;
    const Utf8Unit unit = utf8_unit(std::string_view(pending_).substr(at));
    if (unit.incomplete && static_cast<size_t>(unit.length) == back) complete = at;
  }
  std::string text = valid(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return text;
}

std::string Utf8Stream::flush() {
  std::string text = valid(pending_);
  pending_.clear();
  return text;
}

}  // namespace llada
