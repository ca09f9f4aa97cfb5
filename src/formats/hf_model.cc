// A Hugging Face folder as a model record: config.json plus one or more safetensors files.
#include <algorithm>

#include "formats/hf_config.h"
#include "formats/printable.h"
#include "formats/safetensors.h"
#include "formats/tensor_names.h"

namespace llada {

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
      if (!name)
        return invalid("{}: tensor {} is not part of this architecture", shard.name, printable(tensor.name));
      record.tensors.push_back({std::move(*name), std::move(tensor.name), tensor.view, tensor.offset});
    }
  }
  LLADA_TRY_STATUS(index_and_check_tensors(record, folder));
  return record;
}

}  // namespace llada
