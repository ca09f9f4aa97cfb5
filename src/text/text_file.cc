#include "text/text_file.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "text/utf8.h"

namespace llada {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMark = "\xEF\xBB\xBF", kWideMark = "\xFF\xFE", kWideMarkBigEndian = "\xFE\xFF";
// UTF-32's first mark begins as UTF-16's does.
constexpr std::string_view kWidestMarks[] = {"\xFF\xFE\0\0"sv, "\0\0\xFE\xFF"sv};

// The text behind UTF-16's mark.
Result<std::string> from_utf16(std::string_view bytes, bool big_endian, const std::string& name) {
  const auto unit = [&](size_t at) {
    const auto first = static_cast<unsigned char>(bytes[at]), second = static_cast<unsigned char>(bytes[at + 1]);
    return static_cast<char32_t>(big_endian ? first << 8 | second : second << 8 | first);
  };
  if (bytes.size() % 2 != 0) return invalid("{}: found UTF-16 of an odd number of bytes, needed two a unit", name);
  std::string text;
  for (size_t at = kWideMark.size(); at < bytes.size(); at += 2) {
    char32_t code = unit(at);
    if (code >= 0xD800 && code < 0xE000) {
      const char32_t low = code < 0xDC00 && at + 2 < bytes.size() ? unit(at + 2) : 0;
      if (low < 0xDC00 || low >= 0xE000)
        return invalid("{}: byte {}: found 0x{:04x}, half of a pair of UTF-16 without the other", name, at + 1,
                       static_cast<uint32_t>(code));
      code = 0x10000 + ((code - 0xD800) << 10 | (low - 0xDC00));
      at += 2;
    }
    append_utf8(text, code);
  }
  return text;
}

// The probable encoding of a text that is no UTF-8 at `bad`: of Western European letters, one byte each. There a letter
// of ASCII stands beside it, no two bytes are a letter of UTF-8, and nothing is a control character. Empty: nobody
// knows.
std::string_view one_byte_encoding(std::string_view text, size_t bad) {
  const auto byte = [&](size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0; };
  const auto letter = [&](size_t at) { return (byte(at) | 0x20) >= 'a' && (byte(at) | 0x20) <= 'z'; };
  const bool continued = byte(bad + 1) >= 0x80 && byte(bad + 1) < 0xC0;
  if (byte(bad) < 0xC0 || continued || !((bad > 0 && letter(bad - 1)) || letter(bad + 1))) return "";
  bool windows = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = utf8_unit(text.substr(at));
    if (unit.valid && unit.length > 1) return "";
    if (byte(at) < 0x20 && !std::string_view("\t\n\r\f").contains(text[at])) return "";
    windows |= byte(at) >= 0x80 && byte(at) < 0xA0;
    at += static_cast<size_t>(unit.length);
  }
  return windows ? "CP1252" : "ISO-8859-1";
}

// The letters of UTF-16 have a NUL in every second byte, the first one too.
bool is_unmarked_utf16(std::string_view text) {
  size_t nuls[2] = {};
  for (size_t at = 0; at < text.size(); ++at) nuls[at % 2] += text[at] == '\0' ? 1 : 0;
  return text.size() >= 4 && text.find('\0') < 2 && std::max(nuls[0], nuls[1]) > text.size() / 4;
}

}  // namespace

Result<std::string> as_text(std::string bytes, const std::string& name) {
  for (const std::string_view mark : kWidestMarks)
    if (bytes.starts_with(mark)) return invalid("{}: found UTF-32, needed UTF-8", name);
  if (bytes.starts_with(kWideMark) || bytes.starts_with(kWideMarkBigEndian)) {
    LLADA_TRY(bytes, from_utf16(bytes, bytes.starts_with(kWideMarkBigEndian), name));
  }
  const std::string_view text = bytes;
  if (is_unmarked_utf16(text))
    return invalid("{}: found UTF-16 without a mark, needed UTF-8, or UTF-16 with its mark in front", name);
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = utf8_unit(text.substr(at));
    if (!unit.valid) {
      const std::string_view probably = one_byte_encoding(text, at);
      return invalid(
          "{}: byte {} (line {}): found 0x{:02x}, which is not UTF-8 there{}", name, at + 1,
          1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'),
          static_cast<unsigned char>(text[at]),
          probably.empty()
              ? ""
              : fmt::format("; the text looks like Latin-1 ({0}), needed UTF-8 (iconv -f {0} -t UTF-8)", probably));
    }
    at += static_cast<size_t>(unit.length);
  }
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos)
    return invalid("{}: byte {} (line {}): found 0x00, which no text has", name, nul + 1,
                   1 + std::ranges::count(text.substr(0, nul), '\n'));
  if (text.starts_with(kMark)) bytes.erase(0, kMark.size());
  return bytes;
}

std::string with_plain_line_ends(std::string text) {
  size_t kept = 0;
  for (size_t at = 0; at < text.size(); ++at)
    if (!std::string_view(text).substr(at).starts_with("\r\n")) text[kept++] = text[at];
  text.resize(kept);
  return text;
}

Result<std::string> read_text_file(const std::string& path, size_t limit_bytes) {
  LLADA_TRY(auto bytes, read_any_file(path, limit_bytes));
  return as_text(std::move(bytes), path);
}

}  // namespace llada
