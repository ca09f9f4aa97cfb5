// Writes GGUF version 3, little-endian: the header from collected metadata and tensor infos, then the tensors as a
// stream. Each is padded to the alignment, the last one too: llama.cpp reads whole padded extents.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "formats/gguf.h"
#include "tensor/view.h"

namespace llada {

class GgufWriter {
 public:
  explicit GgufWriter(uint32_t alignment = 32) : alignment_(alignment) {}

  void add_u32(std::string_view key, uint32_t value) { scalar(key, GgufType::u32, &value, sizeof value); }
  void add_f32(std::string_view key, float value) { scalar(key, GgufType::f32, &value, sizeof value); }
  void add_bool(std::string_view key, bool value) { scalar(key, GgufType::boolean, &value, 1); }
  void add_string(std::string_view key, std::string_view value);
  void add_strings(std::string_view key, std::span<const std::string> values);
  void add_i32s(std::string_view key, std::span<const int32_t> values);
  void add_bools(std::string_view key, const std::vector<bool>& values);

  // Tensors are written in the order in which they are added.
  void add_tensor(std::string_view name, DType type, const Shape& shape);
  size_t tensor_count() const { return tensors_.size(); }
  uint64_t data_bytes() const { return data_bytes_; }  // all tensors with their padding

  std::string header() const;  // everything before the data, padded

  // Writes the whole file and commits it. fill writes exactly the bytes of tensor `index`. check (may be empty) gets
  // the path of the file with its header and its first `seen` tensors before the others are written; an error ends it.
  Status write(const std::string& path, const std::function<Status(size_t index, AtomicFile& out)>& fill,
               const std::function<Status(const std::string& path)>& check = {}, size_t seen = 0) const;

 private:
  struct Info {
    std::string name;
    DType type;
    Shape shape;
    uint64_t offset, bytes;
  };
  uint64_t padding(uint64_t position) const { return (alignment_ - position % alignment_) % alignment_; }
  void key_and_type(std::string_view key, GgufType type);
  void scalar(std::string_view key, GgufType type, const void* value, size_t size);

  uint32_t alignment_;
  std::string metadata_;
  uint64_t keys_ = 0, data_bytes_ = 0;
  std::vector<Info> tensors_;
};

}  // namespace llada
