// The pre-tokenizers that GGUF files name in tokenizer.ggml.pre, and the regexes that are known to be
// harmless. Source of the regexes: the tokenizer.json files that the models were published with.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada {

inline constexpr std::string_view kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlamaRegex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwenRegex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kBailingRegex =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";

struct PreTokenizerRules {
  std::vector<std::string> regexes;  // applied in order, each splitting further
  bool ignore_merges = false;        // the family's tokenizer.json sets it, but GGUF has no key for it
};

// `name` as in tokenizer.ggml.pre. Empty or "default": four regexes, the ones that llama.cpp falls back to
// when a file does not say. Error: an unknown name, with the list of the known ones.
Result<PreTokenizerRules> pre_tokenizer_rules(std::string_view name);

// True for regexes whose cost on any text is known to be linear: those above, and their near relatives.
bool is_linear_regex(std::string_view regex);

}  // namespace llada
