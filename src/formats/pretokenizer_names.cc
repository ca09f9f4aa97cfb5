#include "formats/pretokenizer_names.h"

#include <algorithm>
#include <array>

namespace llada {
namespace {

struct Known {
  std::string_view regex;
  PretokenizerName name;
};

constexpr std::array kKnown = {
    // LLaDA-8B, LLaDA-MoE and the Ling family they take their tokenizer from.
    Known{
        R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
        {"bailingmoe", true}},
    // Dream takes Qwen2's.
    Known{
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        {"qwen2", true}},
    Known{
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        {"llama-bpe", true}},
    Known{R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", {"gpt-2", true}},
    // The tiny models that ship with this project: GPT-2's without contractions, digits one by one. Nothing
    // in llama.cpp
    // splits exactly so; bailingmoe differs in how punctuation joins a following word or line end.
    Known{R"( ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", {"bailingmoe", false}},
};

}  // namespace

PretokenizerName pretokenizer_name(std::span<const std::string> regexes) {
  if (regexes.size() == 1)
    if (const auto found = std::ranges::find(kKnown, std::string_view(regexes[0]), &Known::regex);
        found != kKnown.end())
      return found->name;
  return {"default", false};
}

}  // namespace llada
