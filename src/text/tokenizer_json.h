// tokenizer.json, and the two files that say the same of a vocabulary, read into a TokenizerSpec. Inside text/ only;
// tokenizer_files.h says what is understood.
#pragma once
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/tokenizer_spec.h"

namespace llada {

inline constexpr int64_t kMaxHoles = 65536;  // ids without a token, so that a hostile id cannot ask for gigabytes

// A vocabulary is long.
inline constexpr JsonLimits kTokenizerJson{.depth = 64, .values = SIZE_MAX, .run_bytes = SIZE_MAX};

// `where` names the file. begins_with: the text of the token that the post-processor puts first; empty: none.
Status read_tokenizer_json(std::string_view json, const std::string& where, TokenizerSpec& spec,
                           std::string& begins_with);

// vocab.json: token to id. merges.txt: two tokens a line, best first; "#version: 0.2" before them.
Status read_vocab_json(std::string_view json, const std::string& where, TokenizerSpec& spec);
Status read_merges_txt(std::string_view text, const std::string& where, TokenizerSpec& spec);

}  // namespace llada
