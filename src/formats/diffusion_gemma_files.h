// DiffusionGemma's files: keys, tensor names, what must be there. Private to formats/.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "formats/expectations.h"
#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "formats/model_record.h"

namespace llada {

inline constexpr std::string_view kDiffusionGemmaClass = "DiffusionGemmaForBlockDiffusion";
inline constexpr std::string_view kDiffusionGemmaArch = "diffusion-gemma";

// config.json and generation_config.json of a folder.
Result<ModelConfig> read_diffusion_gemma_config(const nlohmann::json& root, const nlohmann::json& generation,
                                                std::string_view file);

Result<ModelRecord> read_diffusion_gemma_gguf(const GgufFile& file, uint64_t file_bytes, std::string_view name);

// Of a tensor in a folder.
struct DiffusionGemmaTensor {
  enum class Part : uint8_t { text, vision, unknown } part = Part::unknown;
  std::string name;  // canonical, of the text model
};
DiffusionGemmaTensor diffusion_gemma_tensor(std::string_view hf_name);

// As for_each_expected() of expectations.h, gate and up of experts apart. split_experts: as files are read; otherwise
// as a GGUF is written.
void for_each_of_diffusion_gemma(const ModelConfig& config, bool split_experts,
                                 const std::function<bool(const ExpectedTensor&)>& visit);

// Of rope_freqs.weight: what divides the frequency of a pair in global layers.
float rope_factor(int64_t pair, int64_t rotary_dims);

void add_diffusion_gemma_metadata(GgufWriter& out, const ModelConfig& config);

// What check_config() asks beside what it asks of every model.
Status check_diffusion_gemma(const ModelConfig& config, std::string_view file);

}  // namespace llada
