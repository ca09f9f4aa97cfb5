#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace llada {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

constexpr std::array<char32_t, 256> kCharOfByte = [] {
  std::array<char32_t, 256> table{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) table[byte] = stands_for_itself(byte) ? byte : next++;
  return table;
}();

constexpr int kAlphabetEnd = 0x144;  // 256 + 68

constexpr std::array<int16_t, kAlphabetEnd> kByteOfChar = [] {
  std::array<int16_t, kAlphabetEnd> table{};
  table.fill(-1);
  for (int byte = 0; byte < 256; ++byte) table[kCharOfByte[byte]] = static_cast<int16_t>(byte);
  return table;
}();

}  // namespace

char32_t byte_to_char(uint8_t byte) { return kCharOfByte[byte]; }

std::string to_byte_alphabet(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(out, kCharOfByte[static_cast<uint8_t>(byte)]);
  return out;
}

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Unit unit = utf8_unit(text);
    if (!unit.valid || unit.code_point >= kAlphabetEnd || kByteOfChar[unit.code_point] < 0) return std::nullopt;
    out += static_cast<char>(kByteOfChar[unit.code_point]);
    text.remove_prefix(unit.length);
  }
  return out;
}

}  // namespace llada
