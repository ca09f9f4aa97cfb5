// GPT-2's byte alphabet: every byte has a printable character, so that a vocabulary of byte strings can be
// stored as text. Printable Latin-1 stands for itself; the other 68 bytes are U+0100, U+0101, ... in
// ascending order (a space is U+0120). Source: Radford et al. 2019, "Language Models are Unsupervised
// Multitask Learners", released encoder.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace llada {

char32_t byte_to_char(uint8_t byte);

std::string to_byte_alphabet(std::string_view bytes);

// Nothing when `text` holds a character outside the alphabet.
std::optional<std::string> from_byte_alphabet(std::string_view text);

}  // namespace llada
