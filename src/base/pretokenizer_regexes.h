// How text is cut before it is tokenized, by the names that tokenizer.ggml.pre has for it: what text/ runs where a GGUF
// file gives a name, and what formats/ finds the name of. The names and what they stand for are llama.cpp's; where it
// writes a published rule in another way, because its regexes know no Unicode, the published one stands here.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace llada {

inline constexpr std::string_view kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwenRegex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The tiny models that ship with this project: GPT-2's without contractions, digits one by one. No name means it.
inline constexpr std::string_view kTinyRegex = R"( ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// What the name of a pre-tokenizer implies where the file has no key that says it.
struct PreTokenizerFlags {
  bool ignore_merges = false;  // a pre-token that is in the vocabulary skips the merges; no key of llama.cpp says it
  bool add_bos = false;
  bool nfc = false;         // no key of llama.cpp says it
  bool characters = false;  // TokenizerSpec::characters
};

struct PreTokenizerRules {
  std::string_view names;                     // as tokenizer.ggml.pre has them, a space between two; one is written
  std::span<const std::string_view> regexes;  // applied in order, each splitting further
  PreTokenizerFlags flags = {};

  std::string_view written_name() const { return names.substr(0, names.find(' ')); }
};

// Every name. The first row is what is assumed where a file has none: what llama.cpp then takes.
std::span<const PreTokenizerRules> pre_tokenizers();

// nullptr: unknown. An empty name is the first row's.
const PreTokenizerRules* find_pre_tokenizer(std::string_view name);

// Of the rows that cut by these regexes, the first; nullptr: there is none.
const PreTokenizerRules* find_pre_tokenizer(std::span<const std::string> regexes);

// True for regexes whose cost on any text is known to be linear: most of those above, and their near relatives.
bool is_linear_regex(std::string_view regex);

}  // namespace llada
