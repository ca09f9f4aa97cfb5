#include "text/pre_tokenizer_rules.h"

#include <algorithm>
#include <array>

#include "base/tokenizer_spec.h"
#include "text/utf8.h"

namespace llada {
namespace {

struct Named {
  std::string_view name;
  std::string_view regex;
  bool ignore_merges;
};

constexpr Named kNamed[] = {
    {"gpt-2", kGpt2Regex, false},
    {"phi-2", kGpt2Regex, false},
    {"jina-es", kGpt2Regex, false},
    {"jina-de", kGpt2Regex, false},
    {"jina-v2-es", kGpt2Regex, false},
    {"jina-v2-de", kGpt2Regex, false},
    {"llama-bpe", kLlamaRegex, true},
    {"llama3", kLlamaRegex, true},
    {"llama-v3", kLlamaRegex, true},
    {"qwen2", kQwenRegex, false},
    {"deepseek-r1-qwen", kQwenRegex, false},
    {"qwen35", kQwen35Regex, false},
    {"gpt-4o", kGpt4oRegex, false},
    {"tekken", kTekkenRegex, true},
    {"bailingmoe", kBailingRegex, false},
    {"bailingmoe2", kBailingRegex, false},
    {"llada-moe", kBailingRegex, false},
    {kGemma4Tokenizer, kGemma4Regex, false},
};

constexpr std::string_view kDeepseek = "deepseek-v3";

constexpr std::string_view kGpt2WithoutFallback =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";

constexpr std::array<std::string_view, 4> kDefault = {
    R"([\p{P}\$\+<=>\^~\|]+)",
    kGpt2WithoutFallback,
    R"(\p{N}+)",
    "[0-9][0-9][0-9]",
};

// Bailing without the possessive marks, and GPT-2's without contractions and with single digits.
constexpr std::array<std::string_view, 3> kRelatives = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
    kTinyRegex,
    R"(\p{N})",
};

}  // namespace

Result<PreTokenizerRules> pre_tokenizer_rules(std::string_view name) {
  if (name.empty() || name == "default") return PreTokenizerRules{{kDefault.begin(), kDefault.end()}, false};
  for (const Named& known : kNamed)
    if (known.name == name) return PreTokenizerRules{{std::string(known.regex)}, known.ignore_merges};
  if (name == kDeepseek) return PreTokenizerRules{{kDeepseekV3Regexes.begin(), kDeepseekV3Regexes.end()}, false};
  std::string names = fmt::format("default, {}", kDeepseek);
  for (const Named& known : kNamed) names += fmt::format(", {}", known.name);
  return invalid("tokenizer.ggml.pre is {}, needed one of: {}", in_quotes(name), names);
}

bool is_linear_regex(std::string_view regex) {
  const auto same = [&](std::string_view known) { return known == regex; };
  // Of GPT-4o's and Mistral's, two classes that share letters follow each other.
  const auto named = [&](const Named& known) {
    return same(known.regex) && known.regex != kGpt4oRegex && known.regex != kTekkenRegex;
  };
  return std::any_of(std::begin(kNamed), std::end(kNamed), named) ||
         std::any_of(kDefault.begin(), kDefault.end(), same) || std::any_of(kRelatives.begin(), kRelatives.end(), same);
}

}  // namespace llada
