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

// Words of capital and small letters, with their contractions. Of these, two classes that share letters follow each
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

// Han and kana, and what DeepSeek cuts after them.
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
constexpr auto kDeepseek = rules(
    "[\\r\\n]",
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼι)"
    R"(ῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻)"
    R"(𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)",
    R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)", R"(\s+(?![\s\S]))", kHanAndHangul, R"(\p{N}+)");
constexpr auto kSpark = rules(kThreeDigits, kHanAndKana,
                              R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
                              R"(| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)",
                              kDigit);
constexpr auto kYoutu =
    rules("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
          kGpt4oDigits);
constexpr auto kChameleon = rules("<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", R"(([\t\n]|    |  ))",
                                  kDigit, R"([\p{P}!-/:-@\[-`{-~])", kGpt2Regex);
// Groups of three digits, counted from the end of the number.
constexpr auto kTinyAya = rules(R"(\d{1,3}(?=(?:\d{3})*(?![\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}Ⓐ-ⓩ🄰-🅉🅐-🅩🅰-🆉])))", kGpt4o);
constexpr auto kSuperBpe = rules(R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))");
constexpr auto kAfmoe = rules(
    R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))",
    "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+",
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
    {"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", kDigits},
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

// Bailing without the possessive marks, what llama.cpp makes of GPT-2, and that of the tiny models.
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
