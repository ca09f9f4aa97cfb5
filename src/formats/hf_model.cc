// A Hugging Face folder as a model record: config.json plus one or more safetensors files.
#include <algorithm>

#include "formats/hf_config.h"
#include "formats/printable.h"
#include "formats/safetensors.h"
#include "formats/tensor_names.h"

namespace llada {

namespace {

// LLaDA2 stores q, k and v as one matrix: all query heads' rows, then the keys', then the values'.
Status split_qkv(ModelRecord& record, const std::string& name, const SafetensorsTensor& tensor,
                 std::string_view folder) {
  const ModelConfig& c = record.config;
  const std::string stem = name.substr(0, name.size() - std::string_view("attn_qkv.weight").size());
  const int64_t rows[3] = {c.heads * c.head_dim, c.kv_heads * c.head_dim, c.kv_heads * c.head_dim};
  const Shape needed{{c.width, rows[0] + rows[1] + rows[2], 1, 1}, 2};
  if (tensor.view.shape != needed)
    return invalid("{}: tensor {} is {}x{}, {}x{} needed", folder, printable(tensor.name), tensor.view.shape.dims[0],
                   tensor.view.shape.rows(), needed.dims[0], needed.dims[1]);
  int64_t first = 0;
  for (int part = 0; part < 3; ++part) {
    ModelTensor piece{fmt::format("{}attn_{}.weight", stem, "qkv"[part]), tensor.name, tensor.view, tensor.offset};
    piece.view.data = tensor.view.row(first);
    piece.view.shape.dims[1] = rows[part];
    piece.offset += static_cast<uint64_t>(first * tensor.view.row_stride());
    record.tensors.push_back(std::move(piece));
    first += rows[part];
  }
  return {};
}

}  // namespace

Result<ModelRecord> read_hf_model(const ModelConfig& config, std::span<const NamedBytes> shards,
                                  std::string_view folder) {
  ModelRecord record;
  record.format = "safetensors";
  record.config = config;
  uint64_t file_bytes = 0, memory = 0;
  for (const NamedBytes& shard : shards) {
    file_bytes += shard.bytes.size();
    LLADA_TRY(auto tensors, parse_safetensors(shard.bytes, shard.name));
    for (const SafetensorsTensor& tensor : tensors)
      memory += sizeof(tensor) + sizeof(ModelTensor) + 3 * tensor.name.size() + 4;
    LLADA_TRY_STATUS(check_memory(memory, file_bytes, folder, "the tensor table"));
    record.tensors.reserve(record.tensors.size() + tensors.size());
    for (SafetensorsTensor& tensor : tensors) {
      if (is_known_buffer(tensor.name)) continue;
      auto name = canonical_name(tensor.name);
      if (!name) return invalid("{}: tensor {} is not part of this architecture", shard.name, printable(tensor.name));
      if (name->ends_with(".attn_qkv.weight")) {
        LLADA_TRY_STATUS(split_qkv(record, *name, tensor, folder));
        continue;
      }
      record.tensors.push_back({std::move(*name), std::move(tensor.name), tensor.view, tensor.offset});
    }
  }
  LLADA_TRY_STATUS(index_and_check_tensors(record, folder));
  return record;
}

}  // namespace llada
