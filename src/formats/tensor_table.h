// Puts a file's tensors into a record under their canonical names. Where a file has one tensor for several of the
// engine's, these are views of its parts, without a copy:
//   blk.N.attn_qkv.weight, .bias     rows of q, then of k, then of v
//   blk.N.ffn_{gate,up,down}_exps    in safetensors: the experts of a layer, one after another
//   blk.N.ffn_gate_up_exps           the same, each expert's gate before its up
// In GGUF stacks of experts stay stacks, but for DiffusionGemma's. Private to formats/.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/model_record.h"

namespace llada {

class TensorTable {
 public:
  // The record has its format and a configuration that was checked. `file` stands for the whole in errors.
  TensorTable(ModelRecord& record, std::string_view file) : record_(record), file_(file) {}

  // Reserves memory for `count` more tensors, which the parser keeps in `parsed_bytes` each. Invalid: too much for
  // `file_bytes`, the size of all files so far (check_memory).
  Status expect(uint64_t file_bytes, size_t count, size_t parsed_bytes);
  Status add(ModelTensor tensor);

 private:
  Status add_qkv(const ModelTensor& whole, bool bias);
  Status add_experts(const ModelTensor& whole);
  void put(const ModelTensor& whole, std::string name, int64_t begin, const Shape& shape);
  Status reserve(const ModelTensor& whole, int64_t count);
  std::unexpected<Error> wrong_shape(const ModelTensor& whole, const Shape& needed) const;

  ModelRecord& record_;
  std::string_view file_;
  uint64_t file_bytes_ = 0, memory_ = 0;
};

}  // namespace llada
