// The tokenizer files of a Hugging Face folder -> TokenizerSpec. Either tokenizer.json, or
// vocab.json with merges.txt (Qwen2's and Dream's tokenizer classes, whose regex and form C are known, and GPT-2's).
//
// These parts of tokenizer.json are understood: model BPE; normalizer null or NFC; pre_tokenizer ByteLevel, or a
// Sequence of Split (Isolated), Digits and a final ByteLevel. Or Gemma's: a BPE of characters with byte fallback behind
// a normalizer that writes U+2581 for a space. Special ones of added_tokens become control tokens, the others
// user-defined. From post_processor comes the begin token that a TemplateProcessing puts first. From
// tokenizer_config.json come added_tokens_decoder, bos, eos, pad and mask tokens, add_bos_token, chat_template, and
// this project's llada_single_turn. Where it has no added_tokens_decoder, added_tokens.json and special_tokens_map.json
// count, as transformers reads them. chat_template.jinja comes before chat_template. Not read: truncation and padding
// (the caller's business), lstrip and rstrip of special tokens, decoder beyond its type. Everything else that would
// change ids is refused by name.
#pragma once
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/tokenizer_spec.h"

namespace llada {

// The texts of these files; empty: the folder has no such file.
struct TokenizerFiles {
  std::string tokenizer, vocab, merges, added_tokens, special_tokens_map, config, chat_template;
};

struct TokenizerFileName {
  std::string_view name;
  std::string TokenizerFiles::* text;
};
inline constexpr TokenizerFileName kTokenizerFiles[] = {
    {"tokenizer.json", &TokenizerFiles::tokenizer},
    {"vocab.json", &TokenizerFiles::vocab},
    {"merges.txt", &TokenizerFiles::merges},
    {"added_tokens.json", &TokenizerFiles::added_tokens},
    {"special_tokens_map.json", &TokenizerFiles::special_tokens_map},
    {"tokenizer_config.json", &TokenizerFiles::config},
    {"chat_template.jinja", &TokenizerFiles::chat_template}};

// `source` names the folder in error lines. Ids that no file names are unused tokens called [PAD<id>].
Result<TokenizerSpec> parse_tokenizer_files(const TokenizerFiles& files, const std::string& source);

}  // namespace llada
