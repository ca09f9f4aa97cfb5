// The pre-tokenizers that GGUF files name in tokenizer.ggml.pre, and the regexes that are known to be
// harmless.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/pretokenizer_regexes.h"

namespace llada {

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
