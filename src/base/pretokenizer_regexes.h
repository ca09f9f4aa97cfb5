// How text is cut before it is tokenized, by the names that tokenizer.ggml.pre has for it. text/ runs these regexes
// where a GGUF file gives a name; formats/ finds the name of given regexes. The names and their meanings are
// llama.cpp's. Where llama.cpp rewrites a published rule, because its regexes know no Unicode, the published one stands
// here.
#pragma once
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

// Flags that the name of a pre-tokenizer implies where the file has no key for them.
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

// Every name. The first row is the default for files without a name, as in llama.cpp.
std::span<const PreTokenizerRules> pre_tokenizers();

// nullptr: unknown. An empty name is the first row's.
const PreTokenizerRules* find_pre_tokenizer(std::string_view name);

// The first row that cuts by these regexes; nullptr: there is none.
const PreTokenizerRules* find_pre_tokenizer(std::span<const std::string> regexes);

// True for regexes whose cost on any text is known to be linear: most of those above, and their near relatives.
bool is_linear_regex(std::string_view regex);

}  // namespace llada
