// The metadata half of a written model file: shared by conversion and synthesis.
#pragma once
#include "base/tokenizer_spec.h"
#include "formats/gguf_writer.h"
#include "formats/model_config.h"

namespace llada {

// general.*, <arch>.*, diffusion.* and tokenizer.* for a file whose matrices are of `type`. tokenizer may be
// null.
Status add_metadata(GgufWriter& out, const ModelConfig& config, const TokenizerSpec* tokenizer, uint32_t file_type);

}  // namespace llada
