// A Hugging Face folder's tokenizer, and the checks of a folder before its weights are there.
#pragma once
#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/tokenizer_spec.h"
#include "formats/model_config.h"
#include "formats/model_file.h"
#include "text/tokenizer.h"

namespace llada {

struct LoadOptions;

bool has_tokenizer_file(const std::string& folder);

// By the files that text/tokenizer_files.h names. Where they name no begin, end, padding or mask, it is config.json's,
// unless that id is a piece of text.
Result<TokenizerSpec> read_folder_tokenizer(const std::string& folder, const ModelConfig& config);

// Configuration and tokenizer: whatever Model::load() refuses of these two.
Status check_folder(const std::string& folder, const Overrides& overrides = {});

// Checks facts about a model that are known before its weights are here: general.architecture of a GGUF file (empty:
// not known), bytes of its files. Invalid: an architecture that is not supported. Where `load` is not null also:
// weights that Model::load() with these options would find no memory for.
Status check_announced(const std::string& name, const std::string& architecture, int64_t bytes,
                       const LoadOptions* load);

// `path` is for errors.
Status check_tokens_fit(const ModelConfig& config, int64_t tokens, const std::string& path);

// Invalid: a mask that is no row of the embedding table or ends an answer, an attention block that is unknown or longer
// than the context.
Status check_can_decode(const ModelConfig& config, const decode::SpecialIds& ids, const std::string& path);

// Both, with the tokens of the tokenizer (null: none).
Status check_tokens_fit(const ModelConfig& config, const Tokenizer* tokenizer, const decode::SpecialIds& ids,
                        const std::string& path);

}  // namespace llada
