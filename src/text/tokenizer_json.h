// Hugging Face's tokenizer.json and tokenizer_config.json -> TokenizerSpec, for byte-level BPE.
// Understood: model BPE; normalizer null or NFC; pre_tokenizer ByteLevel, or a Sequence of Split (Isolated),
// Digits and a final ByteLevel; added_tokens (special ones become control tokens, the others user-defined);
// bos, eos, pad and mask tokens, add_bos_token and chat_template of the configuration. Not read: truncation
// and padding (the caller's business), post_processor (templates and add_bos say where control tokens go),
// decoder beyond its type. Everything else that would change ids is refused by name.
#pragma once
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/tokenizer_spec.h"

namespace llada {

// `tokenizer_config_json` may be empty. `source` names the folder or file in error lines. Ids that neither
// the vocabulary nor added_tokens name are unused tokens called [PAD<id>].
Result<TokenizerSpec> parse_tokenizer_json(std::string_view tokenizer_json, std::string_view tokenizer_config_json,
                                           const std::string& source);

}  // namespace llada
