#include "formats/pretokenizer_names.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/pretokenizer_regexes.h"

namespace llada {
namespace {

struct Known {
  std::string_view regex;
  PretokenizerName name;
};

// Applied one after another.
constexpr std::array<std::string_view, 3> kDeepseekV3 = {
    R"(\p{N}{1,3})",
    "[一-龥぀-ゟ゠-ヿ]+",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
};

constexpr std::array kKnown = {
    // LLaDA-8B, LLaDA-MoE and the Ling family they take their tokenizer from.
    Known{kBailingRegex, {"bailingmoe", true}},
    // Dream takes Qwen2's.
    Known{kQwenRegex, {"qwen2", true}},
    Known{kLlamaRegex, {"llama-bpe", true}},
    // Qwen 3.5 and GPT-4o.
    Known{R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
          R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
          {"qwen35", true}},
    Known{
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
        R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
        R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        {"gpt-4o", true}},
    Known{kGpt2Regex, {"gpt-2", true}},
    // Nothing in llama.cpp splits exactly so; bailingmoe differs in how punctuation joins a following word or line end.
    Known{kTinyRegex, {"bailingmoe", false}},
};

// Line ends stand in tokenizer.json as themselves or as escapes.
std::string spelled_out(std::string_view regex) {
  std::string out;
  for (const char c : regex) {
    if (c == '\r')
      out += "\\r";
    else if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

}  // namespace

PretokenizerName pretokenizer_name(std::span<const std::string> regexes) {
  std::vector<std::string> plain;
  for (const std::string& regex : regexes) plain.push_back(spelled_out(regex));
  if (plain.size() == 1)
    if (const auto found = std::ranges::find(kKnown, std::string_view(plain[0]), &Known::regex); found != kKnown.end())
      return found->name;
  if (std::ranges::equal(plain, kDeepseekV3)) return {"deepseek-v3", true};
  return {"default", false};
}

}  // namespace llada
