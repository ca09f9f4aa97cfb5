#include "base/pretokenizer_regexes.h"

#include <algorithm>

#include "base/tokenizer_spec.h"

namespace llada {
namespace {

template <class... Regex>
constexpr auto rules(Regex... regexes) {
  return std::array<std::string_view, sizeof...(Regex)>{std::string_view(regexes)...};
}

// --- one regex

constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kThreeDigits = R"(\p{N}{1,3})";
constexpr std::string_view kLines = R"([^\n]+|\n+)";
constexpr std::string_view kLlama = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                                    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBloom = R"( ?[^(\s|.,!?…。，、।۔،)]+)";

// Words of capital and small letters, with their contractions. Two of these classes share letters and follow each
// other, so their cost is not linear.
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4oDigits =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
                                     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
                                     R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Without the Han characters, which are words of their own. The published one intersects classes.
constexpr std::string_view kKimi =
    R"(\p{Han}+)"
    R"(|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Han and kana, and the sets that DeepSeek cuts after them.
constexpr std::string_view kHanAndKana = "[一-龥぀-ゟ゠-ヿ]+";
constexpr std::string_view kHanAndHangul = "[一-龥ࠀ-一가-퟿]+";
constexpr std::string_view kDeepseekWords =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// --- rows

constexpr auto kGpt2 = rules(kGpt2Regex);
constexpr auto kDigits = rules(kDigit, kGpt2Regex);
constexpr auto kQwen = rules(kQwenRegex);
constexpr auto kLlama3 = rules(kLlama);
constexpr auto kDefault = rules(R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Regex, R"(\p{N}+)", "[0-9][0-9][0-9]");
constexpr auto kFalcon = rules(R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Regex, "[0-9][0-9][0-9]");
constexpr auto kBailingMoe = rules(kBailing);
constexpr auto kQwen3_5 = rules(kQwen35);
constexpr auto kGpt4 = rules(kGpt4o);
constexpr auto kMistral = rules(kTekken);
constexpr auto kKimiK2 = rules(kKimi);
constexpr auto kBloomFamily = rules(kBloom);
constexpr auto kViking = rules(kBloom, kDigit);
constexpr auto kGemma4 = rules(kLines);
constexpr auto kLaguna = rules(kLines, kQwenRegex);
constexpr auto kDeepseekV3 = rules(kThreeDigits, kHanAndKana, kDeepseekWords);
constexpr auto kDeepseekCoder = rules("[\\r\\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kHanAndHangul, kDigit);
// The letters with case, as its authors list them.
constexpr auto kDeepseek =
    rules("[\\r\\n]",
          R"(\s?[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af})"
          R"(\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1})"
          R"(\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5})"
          R"(\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a})"
          R"(\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b})"
          R"(\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc})"
          R"(\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107})"
          R"(\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134})"
          R"(\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4})"
          R"(\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787})"
          R"(\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a})"
          R"(\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2})"
          R"(\x{118a0}-\x{118df}\x{1e900}-\x{1e943}]+)",
          R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)", R"(\s+(?![\s\S]))",
          kHanAndHangul, R"(\p{N}+)");
constexpr auto kSpark = rules(kThreeDigits, kHanAndKana,
                              R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
                              R"(| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)",
                              kDigit);
constexpr auto kYoutu = rules(R"([\x{ac00}-\x{d7a3}\x{3131}-\x{318e}]+|[\x{ff01}\x{2026}\x{201c}\x{201d}\x{2018})"
                              R"(\x{2019}\x{2014}\x{ff1a}\x{ff1b}\x{ff0c}\x{3001}-\x{303f}\x{fe30}-\x{fe4f}]+|[)"
                              R"(\x{3105}-\x{312f}]+|[\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)",
                              kGpt4oDigits);
constexpr auto kChameleon = rules("<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", R"(([\t\n]|    |  ))",
                                  kDigit, R"([\p{P}!-/:-@\[-`{-~])", kGpt2Regex);
// Groups of three digits, counted from the end of the number.
constexpr auto kTinyAya = rules(R"(\d{1,3}(?=(?:\d{3})*(?![\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9})"
                                R"(\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}])))",
                                kGpt4o);
constexpr auto kSuperBpe = rules(R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))");
constexpr auto kAfmoe =
    rules(R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))",
          R"([\x{4e00}-\x{9fff}\x{3400}-\x{4dbf}\x{f900}-\x{faff}\x{3040}-\x{309f}\x{30a0}-\x{30ff})"
          R"(\x{ff65}-\x{ff9f}\x{2f00}-\x{2fdf}\x{e40}-\x{e7f}\x{e80}-\x{eff}\x{1780}-\x{17ff}\x{1000}-\x{109f})"
          R"(\x{aa60}-\x{aa7f}\x{a9e0}-\x{a9ff}\x{ac00}-\x{d7af}\x{1100}-\x{11ff}]+)",
          kDeepseekWords);
constexpr auto kJais2 = rules(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                              R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S))"
                              R"(|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})");
constexpr auto kSeedCoder = rules(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}|)"
                                  R"( ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)");
constexpr auto kUfakzeka =
    rules(R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
constexpr auto kExaoneMoe =
    rules(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|)"
          R"( ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)");
constexpr auto kMinicpm5 = rules(kThreeDigits, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+|)"
                                               R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");

constexpr PreTokenizerFlags kNoMerges = {.ignore_merges = true};
constexpr PreTokenizerFlags kLlamaFlags = {.ignore_merges = true, .add_bos = true};

// "whitespace" alone is left out: it is for vocabularies of characters without a space and without bytes.
constexpr PreTokenizerRules kTable[] = {
    {"default", kDefault},
    {"gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe gigachat a.x-4.0 mellum "
     "modern-bert exaone4 mpt olmo jais trillion granite-docling",
     kGpt2},
    {"smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", kDigits},
    {"qwen2", kQwen, {.nfc = true}},
    {"deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2", kQwen},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", kLlama3, kLlamaFlags},
    {"dbrx smaug-bpe glm4 chatglm-bpe", kLlama3},
    {"bailingmoe bailingmoe2 llada-moe", kBailingMoe},
    {"qwen35", kQwen3_5},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", kGpt4},
    {"granite-embed-multi-97m", kGpt4, kNoMerges},
    {"tekken", kMistral, kLlamaFlags},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", kDeepseekV3},
    {"deepseek-llm", kDeepseek},
    {"deepseek-coder", kDeepseekCoder},
    {"spark2_5", kSpark},
    {"youtu", kYoutu, kNoMerges},
    {"falcon", kFalcon},
    {"bloom gpt3-finnish poro-chat", kBloomFamily},
    {"viking", kViking},
    {"chameleon", kChameleon, {.add_bos = true}},
    {"tiny_aya cohere2moe", kTinyAya},
    {"kimi-k2", kKimiK2},
    {"superbpe", kSuperBpe},
    {"afmoe", kAfmoe},
    {"jais-2", kJais2},
    {"seed-coder", kSeedCoder},
    {"ufakzeka", kUfakzeka},
    {"exaone-moe", kExaoneMoe},
    {"minicpm5", kMinicpm5, kNoMerges},
    {"laguna", kLaguna},
    {kGemma4Tokenizer, kGemma4, {.add_bos = true, .characters = true}},
    {"granite-embed-multi-311m", kGemma4, {.add_bos = true, .characters = true}},
    {"sarvam-moe", kGemma4, {.characters = true}},
};

// Their cost grows faster than a text: a look ahead to the end of a number or a run of white space at each match, and
// the classes that share letters.
constexpr std::array kNotLinear = {kGpt4o,       kGpt4oDigits, kTekken,   kKimi,        kTinyAya[0],
                                   kSuperBpe[1], kAfmoe[0],    kJais2[0], kExaoneMoe[0]};

// Bailing without the possessive marks, llama.cpp's form of GPT-2, and that of the tiny models.
constexpr auto kRelatives =
    rules(R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
          R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))", kTinyRegex);

bool has_name(std::string_view names, std::string_view wanted) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == wanted) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

}  // namespace

std::span<const PreTokenizerRules> pre_tokenizers() { return kTable; }

const PreTokenizerRules* find_pre_tokenizer(std::string_view name) {
  if (name.empty()) return kTable;
  const auto* row = std::ranges::find_if(kTable, [&](const auto& known) { return has_name(known.names, name); });
  return row != std::end(kTable) ? row : nullptr;
}

const PreTokenizerRules* find_pre_tokenizer(std::span<const std::string> regexes) {
  const auto* row = std::ranges::find_if(
      kTable, [&](const auto& known) { return !known.flags.characters && std::ranges::equal(known.regexes, regexes); });
  return row != std::end(kTable) ? row : nullptr;
}

bool is_linear_regex(std::string_view regex) {
  const auto has = [&](const auto& list) { return std::ranges::find(list, regex) != std::end(list); };
  if (has(kNotLinear)) return false;
  return has(kRelatives) || std::ranges::any_of(kTable, [&](const auto& row) { return has(row.regexes); });
}

}  // namespace llada
