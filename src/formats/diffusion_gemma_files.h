// DiffusionGemma's files: keys and conditions. Private to formats/.
#pragma once
#include <string_view>

#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "formats/model_record.h"
#include "json/parse.h"

namespace llada {

inline constexpr std::string_view kDiffusionGemmaClass = "DiffusionGemmaForBlockDiffusion";
inline constexpr std::string_view kDiffusionGemmaArch = "diffusion-gemma";

// config.json and generation_config.json of a folder.
Result<ModelConfig> read_diffusion_gemma_config(const Json& root, const Json& generation, std::string_view file);

Result<ModelRecord> read_diffusion_gemma_gguf(const GgufFile& file, uint64_t file_bytes, std::string_view name);

// The divisor of a pair's frequency in global layers (kRopeFactors).
float rope_factor(int64_t pair, int64_t rotary_dims);

void add_diffusion_gemma_metadata(GgufWriter& out, const ModelConfig& config);

// The conditions of check_config() for this family.
Status check_diffusion_gemma(const ModelConfig& config, std::string_view file);

}  // namespace llada
