// The metadata half of a written model file: shared by conversion and synthesis.
#pragma once
#include "base/tokenizer_spec.h"
#include "formats/gguf_writer.h"
#include "formats/model_config.h"

namespace llada {

// llama.cpp's general.file_type of a file whose matrices are mostly of this type.
uint32_t file_type(DType type);

// general.*, <arch>.*, diffusion.* and tokenizer.* of a file; type_number: its general.file_type. tokenizer: may be
// null.
Status add_metadata(GgufWriter& out, const ModelConfig& config, const TokenizerSpec* tokenizer, uint32_t type_number);

}  // namespace llada
