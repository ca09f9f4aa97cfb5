// The result of reading a file format: the configuration, the tensors by canonical name, and the tokenizer if the file
// has one. The views point into bytes that somebody else keeps mapped. Canonical names are llama.cpp's GGUF names:
// token_embd.weight, blk.0.attn_q.weight, ..., output.weight. Experts that the file stores one by one are
// blk.N.ffn_{gate,up,down}_exps.E.weight, each {in, out}; stacked ones have no E and a third dimension.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/tokenizer_spec.h"
#include "formats/model_config.h"
#include "tensor/view.h"

namespace llada {

class MadeWeights;

struct ModelTensor {
  std::string name;       // canonical
  std::string file_name;  // as the file calls it
  TensorView view;
  uint64_t offset = 0;  // of the data, from the start of its file
};

struct ModelRecord {
  std::string_view format;  // "gguf", "gguf (diffuse)", "safetensors"
  ModelConfig config;
  std::vector<ModelTensor> tensors;  // in file order
  std::vector<uint32_t> by_name;     // indices of `tensors`, sorted by canonical name
  std::optional<TokenizerSpec> tokenizer;
  std::shared_ptr<MadeWeights> made = {};  // tensors that no file has in this form; null: there are none

  const ModelTensor* find(std::string_view name) const;
};

// Bytes with the name that error lines give them.
struct NamedBytes {
  std::span<const std::byte> bytes;
  std::string name;
};

// Sets norm_topk by the family's rule (Gates). said: the value of the file's `key`, if any; own: that of this project's
// `own_key`. Adds a note where the published code ignores the file's value.
void set_gates(ModelConfig& config, std::optional<bool> said, bool own, std::string_view key, std::string_view own_key);

// Drops the groups of experts where a block's rows choose experts together (expert_capacity).
void route_by_blocks(ModelConfig& config);

// The error names the value that lies outside [low, high].
Status in_range(std::string_view file, std::string_view what, int64_t value, int64_t low, int64_t high);

// Invalid: a number that is not finite or positive, that contradicts another one, or with which a later product could
// exceed 64 bits.
Status check_config(const ModelConfig& config, std::string_view file);

// Sorts by_name and checks the tensors. Invalid: a required tensor that is missing, a wrong shape, a tensor that stands
// twice or that the architecture does not have.
Status index_and_check_tensors(ModelRecord& record, std::string_view file);

std::string dims_text(const Shape& shape);  // "64x128"

// Sorts by_name alone. Invalid: a tensor that stands twice.
Status index_tensors(ModelRecord& record, std::string_view file);

// Invalid: names and tokens need more memory than twice the file's size and a constant, so that a small file costs
// little.
Status check_memory(uint64_t needed_bytes, uint64_t file_bytes, std::string_view file, std::string_view what);

}  // namespace llada
