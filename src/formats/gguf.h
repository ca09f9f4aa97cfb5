// GGUF, versions 2 and 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): typed metadata and tensor infos,
// parsed from bytes that are mapped elsewhere. Nothing is copied: keys, names, values and tensors point into the bytes.
// Everything is checked against the file before it is handed out: counts and lengths against the bytes left, shapes
// against overflow. Tensors are checked against the file's end, each other and the alignment. Deliberately refused:
// version 1 and big-endian files, arrays of arrays, and tensor types outside dtype.h. So are tensors that overlap or
// are not stored in the order of their infos (llama.cpp refuses those too). A model in several files: gguf_parts.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tensor/view.h"

namespace llada {

// Numbers as in the file.
enum class GgufType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

std::string_view gguf_type_name(GgufType type);
std::optional<DType> dtype_from_ggml(uint32_t number);  // ggml's tensor type numbers
uint32_t ggml_from_dtype(DType type);
std::string_view ggml_type_name(uint32_t number);  // ggml's own, of types too that are not read; empty: of none

// One metadata value: a view of checked bytes. The accessors give nothing when the value is of another type.
struct GgufValue {
  std::string_view key;
  GgufType type = GgufType::u8;
  GgufType element = GgufType::u8;  // arrays: type of the elements
  uint64_t count = 1;               // arrays: number of elements
  std::span<const std::byte> data;  // the value's bytes; for strings and arrays without the leading type and length

  std::optional<int64_t> as_integer() const;  // any integer type; u64 above the range of int64 gives nothing
  std::optional<double> as_number() const;    // f32, f64 or any integer type
  std::optional<bool> as_bool() const;
  std::optional<std::string_view> as_string() const;
  std::optional<std::vector<std::string>> as_strings() const;  // array of strings
  uint64_t strings_memory() const;                             // the allocations of as_strings(), about
  std::optional<std::vector<int64_t>> as_integers() const;     // array of any integer type
};

struct GgufTensor {
  std::string_view name;
  TensorView view;
  uint64_t offset = 0;  // from the start of its file
};

class GgufFile {
 public:
  // `bytes` must outlive the result; `name` stands for the file in errors.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string_view name);

  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  const std::vector<GgufValue>& values() const { return values_; }     // in file order
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in file order, offsets ascending
  const GgufValue* find(std::string_view key) const;                   // null: none
  const GgufTensor* tensor(std::string_view name) const;               // null: none

  // The other's tensors behind its own; they keep pointing into the other's bytes.
  void append_tensors(const GgufFile& other);

 private:
  friend class GgufParser;
  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  std::vector<GgufValue> values_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace llada
