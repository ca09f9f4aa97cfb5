#include "text/tokenizer_files.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/pretokenizer_regexes.h"
#include "text/added_tokens.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace llada {
namespace {

// The steps before the merges, of tokenizer classes whose files are vocab.json and merges.txt.
Status follow_class(const Fields& config, TokenizerSpec& spec) {
  LLADA_TRY(std::string name, config.text("tokenizer_class", ""));
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  const std::string_view qwen[] = {"", "Qwen2Tokenizer", "DreamTokenizer", "PreTrainedTokenizer"};
  if (std::ranges::count(qwen, std::string_view(name)) > 0) {
    spec.regexes = {std::string(kQwenRegex)};
    spec.nfc = true;
  } else if (name == "GPT2Tokenizer") {
    spec.regexes = {std::string(kGpt2Regex)};
  } else {
    return config.wrong(
        "tokenizer_class", name,
        "Qwen2Tokenizer, DreamTokenizer or GPT2Tokenizer for vocab.json and merges.txt, or a tokenizer.json");
  }
  return {};
}

// A string, or a list of {name, template} of which "default" counts, else the first.
Status read_chat_template(const Fields& config, TokenizerSpec& spec) {
  const Json* value = config.find("chat_template");
  if (value == nullptr || !value->is_array()) {
    LLADA_TRY(spec.chat_template, config.text("chat_template", ""));
    return {};
  }
  LLADA_TRY(const auto templates, config.objects("chat_template"));
  for (const Fields& one : templates) {
    LLADA_TRY(const std::string name, one.text("name", ""));
    if (name != "default" && &one != &templates.front()) continue;
    LLADA_TRY(spec.chat_template, one.text("template", ""));
    if (name == "default") break;
  }
  return {};
}

// first, second: the two files that name special tokens.
Status read_special(const Fields& first, const Fields& second, const char* name, AddedTokens& tokens, int32_t& id) {
  for (const Fields* names : {&first, &second}) {
    LLADA_TRY(const std::string text, special_text(*names, name));
    if (text.empty()) continue;
    id = tokens.find(text);
    if (id < 0) return names->wrong(name, text, "a token of the vocabulary");
    return {};
  }
  return {};
}

Result<Fields> fields_of(const std::string& text, const std::string& where) {
  return Fields::parse(text.empty() ? "{}" : text, where, kTokenizerJson);
}

}  // namespace

Result<TokenizerSpec> parse_tokenizer_files(const TokenizerFiles& files, const std::string& source) {
  const auto file = [&](std::string_view name) { return fmt::format("{}: {}", source, name); };
  TokenizerSpec spec;
  LLADA_TRY(const Fields config, fields_of(files.config, file("tokenizer_config.json")));
  LLADA_TRY(const Fields map, fields_of(files.special_tokens_map, file("special_tokens_map.json")));
  std::string begins_with;
  const bool split = files.tokenizer.empty();  // vocabulary and merges in files of their own
  if (!split) {
    LLADA_TRY_STATUS(read_tokenizer_json(files.tokenizer, file("tokenizer.json"), spec, begins_with));
  } else if (!files.vocab.empty() && !files.merges.empty()) {
    LLADA_TRY_STATUS(follow_class(config, spec));
    LLADA_TRY_STATUS(read_vocab_json(files.vocab, file("vocab.json"), spec));
    LLADA_TRY_STATUS(read_merges_txt(files.merges, file("merges.txt"), spec));
  } else {
    return invalid("{}: has no tokenizer that can be read; needed tokenizer.json, or vocab.json and merges.txt",
                   source);
  }

  AddedTokens tokens(spec);
  const bool legacy = !config.has("added_tokens_decoder");
  LLADA_TRY(std::set<std::string> special, special_texts(config));
  if (legacy) {
    LLADA_TRY(std::set<std::string> further, special_texts(map));
    special.merge(further);
  }
  // In those classes a token's text is looked for in the text that form C was made of.
  const bool before_nfc = spec.nfc && !split;
  if (!legacy) {
    LLADA_TRY(const Fields decoder, config.object("added_tokens_decoder"));
    LLADA_TRY_STATUS(read_added_tokens_decoder(decoder, before_nfc, tokens));
  } else if (!files.added_tokens.empty()) {
    LLADA_TRY_STATUS(read_added_tokens_json(files.added_tokens, file("added_tokens.json"), spec.nfc, special, tokens));
  }
  for (const char* list : kSpecialLists)
    for (const Fields* names : {&config, &map}) {
      LLADA_TRY(const auto texts, special_list(*names, list));
      for (const std::string& text : texts)
        if (const int32_t id = tokens.find(text); id >= 0) tokens.make_control(id);
    }
  const Fields &first = legacy ? map : config, &second = legacy ? config : map;
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
  LLADA_TRY(spec.add_bos, config.boolean("add_bos_token", spec.bos >= 0 && (begin == spec.bos || spec.characters)));
  LLADA_TRY(spec.single_turn, config.boolean("llada_single_turn", false));
  if (files.chat_template.empty()) {
    LLADA_TRY_STATUS(read_chat_template(config, spec));
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
