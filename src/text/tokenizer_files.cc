#include "text/tokenizer_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/pretokenizer_regexes.h"
#include "text/added_tokens.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace llada {
namespace {

// The steps before the merges, of tokenizer classes whose files are vocab.json and merges.txt.
Status follow_class(const Json& config, const std::string& where, TokenizerSpec& spec) {
  LLADA_TRY(std::string name, string_member(config, "tokenizer_class", "", where));
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  const std::string_view qwen[] = {"", "Qwen2Tokenizer", "DreamTokenizer", "PreTrainedTokenizer"};
  if (std::ranges::count(qwen, std::string_view(name)) > 0) {
    spec.regexes = {std::string(kQwenRegex)};
    spec.nfc = true;
  } else if (name == "GPT2Tokenizer") {
    spec.regexes = {std::string(kGpt2Regex)};
  } else {
    return invalid(
        "{}.tokenizer_class is {}, needed Qwen2Tokenizer, DreamTokenizer or GPT2Tokenizer for vocab.json and "
        "merges.txt, or a tokenizer.json",
        where, in_quotes(name));
  }
  return {};
}

// A string, or a list of {name, template} of which "default" counts, else the first.
Status read_chat_template(const Json& config, const std::string& where, TokenizerSpec& spec) {
  const Json* value = find_member(config, "chat_template");
  if (value == nullptr || !value->is_array()) {
    LLADA_TRY(spec.chat_template, string_member(config, "chat_template", "", where));
    return {};
  }
  for (size_t i = 0; i < value->size(); ++i) {
    const std::string path = fmt::format("{}.chat_template[{}]", where, i);
    LLADA_TRY(const std::string name, string_member((*value)[i], "name", "", path));
    if (name != "default" && i > 0) continue;
    LLADA_TRY(spec.chat_template, string_member((*value)[i], "template", "", path));
    if (name == "default") break;
  }
  return {};
}

// One of the two files that name special tokens.
struct Names {
  const Json& object;
  std::string where;
};

Status read_special(const Names& first, const Names& second, const char* name, AddedTokens& tokens, int32_t& id) {
  for (const Names& names : {first, second}) {
    LLADA_TRY(const std::string text, special_text(names.object, name, names.where));
    if (text.empty()) continue;
    id = tokens.find(text);
    if (id < 0) return invalid("{}.{} is {}, which the vocabulary does not have", names.where, name, in_quotes(text));
    return {};
  }
  return {};
}

Result<Json> object_of(const std::string& text, const std::string& where) {
  if (text.empty()) return Json::object();
  LLADA_TRY(Json json, parse_json(text, where));
  if (!json.is_object()) return invalid("{} is {}, needed an object", where, kind_of(json));
  return json;
}

}  // namespace

Result<TokenizerSpec> parse_tokenizer_files(const TokenizerFiles& files, const std::string& source) {
  const auto file = [&](std::string_view name) { return fmt::format("{}: {}", source, name); };
  TokenizerSpec spec;
  const std::string config_name = file("tokenizer_config.json"), map_name = file("special_tokens_map.json");
  LLADA_TRY(const Json config, object_of(files.config, config_name));
  LLADA_TRY(const Json map, object_of(files.special_tokens_map, map_name));
  std::string begins_with;
  const bool split = files.tokenizer.empty();  // vocabulary and merges in files of their own
  if (!split) {
    LLADA_TRY_STATUS(read_tokenizer_json(files.tokenizer, file("tokenizer.json"), spec, begins_with));
  } else if (!files.vocab.empty() && !files.merges.empty()) {
    LLADA_TRY_STATUS(follow_class(config, config_name, spec));
    LLADA_TRY_STATUS(read_vocab_json(files.vocab, file("vocab.json"), spec));
    LLADA_TRY_STATUS(read_merges_txt(files.merges, file("merges.txt"), spec));
  } else {
    return invalid("{}: has no tokenizer that can be read; needed tokenizer.json, or vocab.json and merges.txt",
                   source);
  }

  AddedTokens tokens(spec);
  const Json* decoder = find_member(config, "added_tokens_decoder");
  const bool legacy = decoder == nullptr || decoder->is_null();
  const Names own{config, config_name}, shared{map, map_name};
  LLADA_TRY(std::set<std::string> special, special_texts(config, config_name));
  if (legacy) {
    LLADA_TRY(std::set<std::string> further, special_texts(map, map_name));
    special.merge(further);
  }
  // In those classes a token's text is looked for in the text that form C was made of.
  const bool before_nfc = spec.nfc && !split;
  if (!legacy) {
    LLADA_TRY_STATUS(read_added_tokens_decoder(*decoder, config_name + ".added_tokens_decoder", before_nfc, tokens));
  } else if (!files.added_tokens.empty()) {
    LLADA_TRY_STATUS(read_added_tokens_json(files.added_tokens, file("added_tokens.json"), spec.nfc, special, tokens));
  }
  for (const char* list : kSpecialLists)
    for (const Names& names : {own, shared}) {
      LLADA_TRY(const auto texts, special_list(names.object, list, names.where));
      for (const std::string& text : texts)
        if (const int32_t id = tokens.find(text); id >= 0) tokens.make_control(id);
    }
  const Names& first = legacy ? shared : own;
  const Names& second = legacy ? own : shared;
  LLADA_TRY_STATUS(read_special(first, second, "bos_token", tokens, spec.bos));
  LLADA_TRY_STATUS(read_special(first, second, "eos_token", tokens, spec.eos));
  LLADA_TRY_STATUS(read_special(first, second, "pad_token", tokens, spec.pad));
  LLADA_TRY_STATUS(read_special(first, second, "mask_token", tokens, spec.mask));
  tokens.finish();
  if (split) spec.matched_last.clear();

  const int32_t begin = begins_with.empty() ? -1 : tokens.find(begins_with);
  if (!begins_with.empty() && begin < 0)
    return invalid("{}.post_processor puts {} first, which the vocabulary does not have", file("tokenizer.json"),
                   in_quotes(begins_with));
  if (spec.bos < 0) spec.bos = begin;
  LLADA_TRY(spec.add_bos,
            bool_member(config, "add_bos_token", spec.bos >= 0 && (begin == spec.bos || spec.characters), config_name));
  LLADA_TRY(spec.single_turn, bool_member(config, "llada_single_turn", false, config_name));
  if (files.chat_template.empty()) {
    LLADA_TRY_STATUS(read_chat_template(config, config_name, spec));
  } else {
    spec.chat_template = files.chat_template;
  }
  if (spec.chat_template.size() > kMaxChatTemplateBytes)
    return invalid("{}: the chat template has {} bytes, at most {} needed", source, spec.chat_template.size(),
                   kMaxChatTemplateBytes);

  for (size_t i = 0; i < spec.tokens.size(); ++i)
    if (spec.kinds[i] == TokenKind::unused) spec.tokens[i] = fmt::format("[PAD{}]", i);
  spec.eot = find_control_token(spec, kEndOfTurnTexts);
  if (spec.mask < 0) spec.mask = find_control_token(spec, kMaskTexts);
  return spec;
}

}  // namespace llada
