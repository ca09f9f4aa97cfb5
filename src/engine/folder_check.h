// A Hugging Face folder's tokenizer, and the checks of a folder before its weights are there.
#pragma once
#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/tokenizer_spec.h"
#include "decode/options.h"
#include "formats/model_config.h"
#include "formats/model_file.h"
#include "text/tokenizer.h"

namespace llada {

struct LoadOptions;

bool has_tokenizer_file(const std::string& folder);  // without which there is no tokenizer

// By the files that text/tokenizer_files.h names. Where they name no begin, end, padding or mask, it is config.json's,
// unless that id is a piece of text.
Result<TokenizerSpec> read_folder_tokenizer(const std::string& folder, const ModelConfig& config);

// Configuration and tokenizer: whatever Model::load() refuses of these two.
Status check_folder(const std::string& folder, const Overrides& overrides = {});

// Checks facts about a model that are known before its weights are here: general.architecture of a GGUF file (empty:
// not known), bytes of its files. Refused is an architecture that is not computed; and where the model is to be loaded
// with `load` (null: it is not), weights that Model::load() would not find memory for.
Status check_announced(const std::string& name, const std::string& architecture, int64_t bytes,
                       const LoadOptions* load);

// `path` is for errors.
Status check_tokens_fit(const ModelConfig& config, int64_t tokens, const std::string& path);

// A mask that is a row of the table and ends no answer, and an attention block that is known.
Status check_can_decode(const ModelConfig& config, const decode::SpecialIds& ids, const std::string& path);

// A tokenizer (null: none) that fits the embedding table, and a mask that is one of its rows.
Status check_tokens_fit(const ModelConfig& config, const Tokenizer* tokenizer, const decode::SpecialIds& ids,
                        const std::string& path);

}  // namespace llada
