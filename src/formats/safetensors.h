// safetensors (https://github.com/huggingface/safetensors): an 8-byte little-endian header length, a JSON
// header {name: {dtype, shape, data_offsets}}, then the data. Parsed from bytes that are mapped elsewhere;
// only names are copied. Every tensor is checked against the file: type, shape, offsets, size, overlaps. The
// format does not align data, so elements lie at any address.
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
  // The type where no weight of ours has it (integers, F64, floats of 8 bits), else empty. Such a tensor is a buffer of
  // the training code or part of a rounded matrix, and its view gives place and shape alone.
  std::string_view raw = {};

  uint64_t bytes() const;
};

struct SafetensorsFile {
  std::vector<SafetensorsTensor> tensors;  // in the order of their data
};

Result<SafetensorsFile> parse_safetensors(std::span<const std::byte> bytes, std::string_view name);

// The file names in a model.safetensors.index.json, each once, sorted. Names with a path in them are refused.
Result<std::vector<std::string>> parse_safetensors_index(std::string_view text, std::string_view name);

}  // namespace llada
