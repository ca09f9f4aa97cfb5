// A non-owning view of a stored tensor. Shapes are in storage order: dims[0] is the contiguous one (GGUF's ne[0]). So a
// linear layer (out x in) has dims {in, out}, and a stack of experts {in, out, experts}.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace llada {

struct Shape {
  std::array<int64_t, 4> dims = {1, 1, 1, 1};
  int rank = 1;

  int64_t columns() const { return dims[0]; }
  int64_t rows() const { return dims[1] * dims[2] * dims[3]; }
  int64_t elements() const { return columns() * rows(); }
  bool operator==(const Shape& other) const { return dims == other.dims; }
};

struct TensorView {
  const std::byte* data = nullptr;
  DType type = DType::F32;
  Shape shape;

  int64_t row_stride() const { return row_bytes(type, shape.columns()); }
  int64_t bytes() const { return row_stride() * shape.rows(); }
  const std::byte* row(int64_t index) const { return data + index * row_stride(); }
  explicit operator bool() const { return data != nullptr; }
};

}  // namespace llada
