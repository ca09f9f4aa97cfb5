// A made vocabulary.
#pragma once
#include <random>
#include <string>
#include <vector>

namespace llada::forms {

// Pieces as byte-level vocabularies have them: all bytes, then words with and without a space before them, numbers, and
// what stands in programs' texts.
inline std::vector<std::string> synthetic(size_t count) {
  std::mt19937 random(1);
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  static const char* kJson[] = {"{\"",  "\": \"", "\", \"", "\": ", "\"}",  "\":", ", \"",
                                "true", "false",  "null",   "\"]",  "\\\"", "},",  "();\n"};
  for (const char* text : kJson) pieces.emplace_back(text);
  while (pieces.size() < count) {
    std::string piece = random() % 2 ? " " : "";
    const unsigned kind = random() % 20;
    for (unsigned n = 1 + random() % 9; n > 0; --n)
      piece += kind == 0   ? std::string("\xe4\xb8") + static_cast<char>(0x80 + random() % 64)
               : kind == 1 ? std::string(1, "0123456789"[random() % 10])
               : kind == 2 ? std::string(1, "(){}[]<>=\"';:,.\\/-_\n"[random() % 20])
                           : std::string(1, "etaoinshrdlucmfwypvbgkETAOIN"[random() % 28]);
    pieces.push_back(piece);
  }
  return pieces;
}

}  // namespace llada::forms
