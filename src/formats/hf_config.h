// Hugging Face config.json to ModelConfig, and a folder's parts to a ModelRecord. Field names are OLMo-style (d_model,
// n_layers, LLaDA-8B) or standard (hidden_size, num_hidden_layers). The architecture comes from `architectures`, since
// model_type is "llada" for LLaDA-MoE too, and from model_type where that is missing. Fields that change the forward
// pass in a way that is not supported are refused by name, e.g. ALiBi, other block types, RoPE scaling, shared experts.
// So are weights that other software has rounded in a way that is not read (rounded_scheme.h).
#pragma once
#include <span>
#include <string_view>

#include "base/error.h"
#include "formats/model_config.h"
#include "formats/model_record.h"

namespace llada {

// generation_json: generation_config.json's text, or empty; gives the ids that config.json leaves out. quant_json: the
// same of hf_quant_config.json, which counts where config.json does not say how weights are rounded.
Result<ModelConfig> read_hf_config(std::string_view config_json, std::string_view generation_json,
                                   std::string_view file, std::string_view quant_json = {});

// `folder` stands for the whole in errors; each shard is one safetensors file.
Result<ModelRecord> read_hf_model(const ModelConfig& config, std::span<const NamedBytes> shards,
                                  std::string_view folder);

}  // namespace llada
