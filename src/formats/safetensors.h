// safetensors (https://github.com/huggingface/safetensors): an 8-byte little-endian header length, a JSON
// header {name: {dtype, shape, data_offsets}}, then the data. Parsed from bytes that are mapped elsewhere;
// only names are copied. Every tensor is checked against the file: type, shape, offsets, size, alignment of
// its elements, overlaps. Tensors of types that no model here uses (integers, F64) are passed over: they can
// be buffers of the training code.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tensor/view.h"

namespace llada {

struct SafetensorsTensor {
  std::string name;
  TensorView view;      // dims in storage order: safetensors' shape reversed
  uint64_t offset = 0;  // from the start of the file
};

// In the order of their data.
Result<std::vector<SafetensorsTensor>> parse_safetensors(std::span<const std::byte> bytes, std::string_view name);

// The file names in a model.safetensors.index.json, each once, sorted. Names with a path in them are refused.
Result<std::vector<std::string>> parse_safetensors_index(std::string_view text, std::string_view name);

}  // namespace llada
