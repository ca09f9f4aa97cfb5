// The tokenizer.ggml.* keys of a GGUF file as a tokenizer description.
#include <algorithm>

#include "base/pretokenizer_regexes.h"
#include "formats/gguf_fields.h"
#include "formats/gguf_model.h"

namespace llada {
namespace {

constexpr uint64_t kMaxTokens = uint64_t{1} << 24;
constexpr uint64_t kMaxRegexes = 16, kMaxRegexBytes = 4096;

bool is_marker(std::string_view text) {
  return text.size() > 3 && text.front() == '<' && text.back() == '>' &&
         (text[1] == '|' || text[text.size() - 2] == '|');
}

class TokenizerReader {
 public:
  TokenizerReader(const GgufFile& file, uint64_t file_bytes, std::string_view name)
      : file_(file), file_bytes_(file_bytes), name_(name), fields_(file, name) {}

  Result<std::optional<TokenizerSpec>> read() {
    LLADA_TRY(const auto model, fields_.string("tokenizer.ggml.model", "none"));
    if (model == "none" || model == "no_vocab") return std::nullopt;
    TokenizerSpec spec;
    LLADA_TRY(spec.pre, fields_.string("tokenizer.ggml.pre", model == kGemma4Tokenizer ? model : ""));
    if (const PreTokenizerRules* rules = find_pre_tokenizer(spec.pre)) implied_ = rules->flags;
    spec.characters = implied_.characters;
    if (model != "gpt2" && model != kGemma4Tokenizer)
      return invalid("{}: tokenizer.ggml.model is {}, gpt2 (byte-level BPE) or gemma4 needed", name_, printable(model));
    LLADA_TRY(spec.tokens, strings("tokenizer.ggml.tokens", kMaxTokens));
    LLADA_TRY(spec.merges, strings("tokenizer.ggml.merges", 4 * kMaxTokens));
    for (size_t i = 0; i < spec.merges.size(); ++i) {
      const size_t space = spec.merges[i].find(' ', 1);
      if (space == std::string::npos || space + 1 == spec.merges[i].size())
        return invalid("{}: tokenizer.ggml.merges: merge {} is \"{}\", two parts needed", name_, i,
                       printable(spec.merges[i]));
    }
    LLADA_TRY_STATUS(kinds(spec));
    LLADA_TRY_STATUS(texts(spec));
    LLADA_TRY_STATUS(ids(spec));
    return spec;
  }

 private:
  Result<std::vector<std::string>> strings(std::string_view key, uint64_t limit) {
    const GgufValue* value = file_.find(key);
    if (value == nullptr) return invalid("{}: metadata key {} is missing", name_, key);
    if (value->type != GgufType::array || value->element != GgufType::string || value->count > limit)
      return invalid("{}: {} is {} x {}, an array of at most {} strings needed", name_, key, value->count,
                     gguf_type_name(value->type == GgufType::array ? value->element : value->type), limit);
    memory_ += value->strings_memory();
    LLADA_TRY_STATUS(check_memory(memory_, file_bytes_, name_, key));
    return *value->as_strings();
  }

  Status kinds(TokenizerSpec& spec) {
    constexpr std::string_view key = "tokenizer.ggml.token_type";
    const GgufValue* value = file_.find(key);
    spec.kinds.reserve(spec.tokens.size());
    if (value == nullptr) {
      spec.kinds.assign(spec.tokens.size(), TokenKind::normal);
      return {};
    }
    if (value->type != GgufType::array || value->element != GgufType::i32 || value->count != spec.tokens.size())
      return invalid("{}: {} is {} x {}, {} x int32 needed, one for each token", name_, key, value->count,
                     gguf_type_name(value->element), spec.tokens.size());
    for (size_t i = 0; i < spec.tokens.size(); ++i) {
      int32_t kind = 0;
      std::copy_n(value->data.data() + 4 * i, 4, reinterpret_cast<std::byte*>(&kind));
      if (kind < 1 || kind > 6) return invalid("{}: {}: token {} has type {}, 1 to 6 needed", name_, key, i, kind);
      spec.kinds.push_back(static_cast<TokenKind>(kind));
      // llama.cpp calls the markers of a message's parts so in order to print them.
      if (spec.characters && spec.kinds[i] == TokenKind::user_defined && is_marker(spec.tokens[i]))
        spec.kinds[i] = TokenKind::control;
    }
    return {};
  }

  Status texts(TokenizerSpec& spec) {
    LLADA_TRY(spec.chat_template, fields_.string("tokenizer.chat_template", "", kMaxChatTemplateBytes));
    LLADA_TRY(spec.single_turn, fields_.boolean(std::string(kKeySingleTurn), false));
    LLADA_TRY(spec.add_bos, fields_.boolean("tokenizer.ggml.add_bos_token", implied_.add_bos));
    if (file_.find(kKeyRegexes) != nullptr) {
      LLADA_TRY(spec.regexes, strings(kKeyRegexes, kMaxRegexes));
      for (const auto& regex : spec.regexes)
        if (regex.size() > kMaxRegexBytes)
          return invalid("{}: {}: {} bytes, at most {} needed", name_, kKeyRegexes, regex.size(), kMaxRegexBytes);
    }
    LLADA_TRY(spec.nfc, fields_.boolean(std::string(kKeyNfc), implied_.nfc));
    LLADA_TRY(spec.ignore_merges, fields_.boolean(std::string(kKeyIgnoreMerges), implied_.ignore_merges));
    return {};
  }

  Status ids(TokenizerSpec& spec) {
    LLADA_TRY(spec.bos, id("tokenizer.ggml.bos_token_id", spec));
    LLADA_TRY(spec.eos, id("tokenizer.ggml.eos_token_id", spec));
    LLADA_TRY(spec.pad, id("tokenizer.ggml.padding_token_id", spec));
    if (spec.pad >= 0 && spec.kinds[static_cast<size_t>(spec.pad)] == TokenKind::normal) spec.pad = -1;  // it is text
    LLADA_TRY(spec.mask, id("tokenizer.ggml.mask_token_id", spec));
    LLADA_TRY(spec.eot, id("tokenizer.ggml.eot_token_id", spec));
    if (spec.mask < 0) spec.mask = find_control_token(spec, kMaskTexts);
    if (spec.eot < 0) spec.eot = find_control_token(spec, kEndOfTurnTexts);
    return {};
  }

  Result<int32_t> id(const std::string& key, const TokenizerSpec& spec) {
    LLADA_TRY(const auto token, fields_.token(key));
    if (token >= 0 && static_cast<size_t>(token) >= spec.tokens.size())
      return invalid("{}: {} is {}, below the number of tokens {} needed", name_, key, token, spec.tokens.size());
    return token;
  }

  const GgufFile& file_;
  uint64_t file_bytes_;
  std::string_view name_;
  GgufFields fields_;
  PreTokenizerFlags implied_;
  uint64_t memory_ = 0;
};

}  // namespace

Result<std::optional<TokenizerSpec>> read_gguf_tokenizer(const GgufFile& file, uint64_t file_bytes,
                                                         std::string_view name) {
  return TokenizerReader(file, file_bytes, name).read();
}

}  // namespace llada
