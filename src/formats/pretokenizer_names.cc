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

constexpr std::array kKnown = {
    // LLaDA-8B, LLaDA-MoE and the Ling family they take their tokenizer from.
    Known{kBailingRegex, {"bailingmoe", true}},
    // Dream takes Qwen2's.
    Known{kQwenRegex, {"qwen2", true}},
    Known{kLlamaRegex, {"llama-bpe", true}},
    Known{kQwen35Regex, {"qwen35", true}},
    Known{kGpt4oRegex, {"gpt-4o", true}},
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
  if (std::ranges::equal(plain, kDeepseekV3Regexes)) return {"deepseek-v3", true};
  return {"default", false};
}

}  // namespace llada
