// Small generated models for the tests and the fuzzers' seeds: as GGUF bytes, as Hugging Face folders.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/tokenizer_spec.h"
#include "formats/family.h"
#include "formats/gguf_writer.h"
#include "formats/model_config.h"
#include "formats/model_file.h"

namespace llada::testing_models {

// "accepted", or why not.
template <typename T>
std::string outcome(const Result<T>& result) {
  return result ? "accepted" : result.error().message;
}
inline ModelFile opened(const std::string& path) {
  auto model = ModelFile::open(path);
  LLADA_CHECK(model);
  return std::move(*model);
}

struct FakeTensor {
  std::string name;  // canonical
  Shape shape;
  std::vector<float> values;
};

// Two layers of width 64, 4 heads of 16; llada_moe: 4 experts. Values depend only on the name and the
// position, are exact in BF16 and differ within a tensor.
ModelConfig tiny_config(const Family* family);
std::vector<FakeTensor> fake_tensors(const ModelConfig& config, bool split_experts);

// 40 tokens: bytes' letters, two merges, <|mdm_mask|> 36, <|endoftext|> 37, <|eot_id|> 38; 39 unused.
TokenizerSpec tiny_tokenizer();

// What a tensor holds, dequantized.
std::vector<float> values(const TensorView& view);

struct GgufOptions {
  std::string arch = "llada";   // general.architecture and key prefix
  std::string model_type = {};  // diffuse.model_type
  DType type = DType::BF16;     // of matrices
  bool tokenizer = true;
  bool alignment_key = true;
};
// The metadata, as a writer, so that a test can add to it; gguf_writer has the tensors' infos too.
GgufWriter gguf_metadata(const ModelConfig& config, const GgufOptions& options);
GgufWriter gguf_writer(const ModelConfig& config, const GgufOptions& options);
std::string gguf_bytes(const ModelConfig& config, const GgufOptions& options = {});
// A file of these metadata and tensors.
std::string gguf_bytes(GgufWriter metadata, const std::vector<FakeTensor>& tensors, DType type);
// The model in parts with so many tensors each, with the keys of llama.cpp's llama-gguf-split.
std::vector<std::string> gguf_parts(const ModelConfig& config, const GgufOptions& options,
                                    const std::vector<size_t>& tensors);
// q, k and v of every layer as one tensor, the biases too.
std::vector<FakeTensor> with_fused_qkv(const std::vector<FakeTensor>& tensors);

// A safetensors file of F32 or BF16 tensors under the given names.
std::string safetensors_bytes(const std::vector<FakeTensor>& tensors, const std::map<std::string, std::string>& names,
                              DType type = DType::BF16);
enum class Style { olmo, standard };
std::map<std::string, std::string> hf_names(const ModelConfig& config,
                                            Style style);  // canonical -> file's name
// What a folder holds: experts one by one; LLaDA2's q, k and v as one matrix.
std::vector<FakeTensor> hf_tensors(const ModelConfig& config);
std::string hf_config_json(const ModelConfig& config, Style style);

}  // namespace llada::testing_models
