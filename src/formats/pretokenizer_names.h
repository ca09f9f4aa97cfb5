// llama.cpp's names (tokenizer.ggml.pre) for the pre-tokenizer regexes of tokenizer.json files.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace llada {

// "default" when llama.cpp has no name for these regexes. exact: the name means the same splits; otherwise it
// is the closest one that llama.cpp has, and the regexes themselves must be stored beside it.
struct PretokenizerName {
  std::string_view name;
  bool exact;
};
PretokenizerName pretokenizer_name(std::span<const std::string> regexes);

}  // namespace llada
