// Byte-level byte-pair encoding, exact: the same ids as the tokenizer that a model was published with, and every byte
// string comes back from its ids.
//
// Words:
//   control token       only templates and flags may place it (begin, end, mask, roles)
//   user-defined token  a fixed string that is taken whole wherever it stands in a text
//   pre-token           a piece that the regexes cut (pre_tokenizer.h)
//
// Rules beyond the published ones:
// - A control token's text is plain text, unless the caller says that the whole text is a program's
//   (ControlText::token): then it is the token, as the published tokenizers have it. No merge may produce a control
//   token. A token that the model uses as begin, end, padding or mask becomes a control token even if the file calls it
//   something else.
// - Bytes that are not valid UTF-8 are pre-tokens of one byte each; the valid stretches between them are tokenized as
//   texts of their own.
// - User-defined tokens match leftmost-longest, before normalisation. Those in spec.matched_last match only between
//   the others. None is found inside the text of a control token. White space around a control token stays, also where
//   a file asks for it to be taken away (lstrip, rstrip).
// - With spec.nfc a text is normalised, so its form C comes back. GGUF has no such key, and llama.cpp never does it.
//
// Where spec.characters is set (Gemma 4), merges join characters in which a space is U+2581. A character without a
// token becomes byte tokens, <0xXX>; so do invalid bytes. A run of line ends that is a token is taken whole. U+2581 in
// a text comes back as a space, as in the published tokenizer.
//
// Deliberately absent: sentencepiece and WordPiece models, dropout, truncation, post-processors.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/tokenizer_spec.h"

namespace llada {

// How the text of a control token inside a text is encoded.
enum class ControlText { letters, token };

// Immutable; copies share the tables. All methods may be called from many threads at once.
class Tokenizer {
 public:
  // `source` names the file in error lines. Errors: a list of the wrong length, an id out of range, a token or merge
  // that is there twice. Also a merge of tokens that are not there, a byte without a token, an unknown pre-tokenizer.
  static Result<Tokenizer> create(TokenizerSpec spec, const std::string& source);

  // The ids of any bytes. The caller adds BOS (spec().add_bos).
  std::vector<int32_t> encode(std::string_view text, ControlText controls = ControlText::letters) const;

  // The bytes of the ids. Control tokens are dropped unless show_special; unused tokens and ids out of range give
  // nothing.
  std::string decode(std::span<const int32_t> ids, bool show_special = false) const;

  // The bytes of one token; a control token's is its text. Empty for unused tokens and ids out of range.
  std::string_view piece(int32_t id) const;

  bool is_control(int32_t id) const;
  std::optional<int32_t> find_control(std::string_view text) const;  // "<|eot_id|>" -> id

  int32_t vocab_size() const;
  const TokenizerSpec& spec() const;

 private:
  struct Tables;
  explicit Tokenizer(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}
  std::shared_ptr<const Tables> tables_;
};

}  // namespace llada
