// What the products of products.cu and tensor_products.cu take their rows from and leave them in.
#pragma once
#include <cuda_block.h>

#include "devices/cuda/kernels.h"

namespace llada::cuda {

// Where the rows of one launch are, and its matrix: all of x, or those of one expert after the other. input(): a row
// of x.
struct Plain {
  const uint8_t* weights;
  const float* x;
  float* y;
  int64_t stride;
  int32_t rows, n0;

  LLADA_DEVICE bool select(int) { return true; }
  LLADA_DEVICE int input(int row) const { return row; }
  LLADA_DEVICE float* output(int row) const { return y + row * stride - n0; }
};

struct Grouped {
  const uint8_t* const* table;
  const int32_t *order, *begins, *gathered;
  const uint8_t* only_weights;
  int32_t only;
  const float* x;
  float* y;
  int64_t stride;
  int32_t rows = 0, begin = 0, n0 = 0;
  const uint8_t* weights = nullptr;

  LLADA_DEVICE bool select(int which) {
    const int expert = only_weights != nullptr ? only : order != nullptr ? order[which] : which;
    begin = begins[expert];
    rows = begins[expert + 1] - begin;
    weights = only_weights != nullptr ? only_weights : table[expert];
    return rows > 0;
  }
  LLADA_DEVICE int input(int row) const { return gathered != nullptr ? gathered[begin + row] : begin + row; }
  LLADA_DEVICE float* output(int row) const { return y + (begin + row) * stride; }
};

inline Plain plain_rows(const Matrix& w, const float* x, int64_t rows, int64_t n0, float* y, int64_t stride) {
  return {w.data, x, y, stride, static_cast<int32_t>(rows), static_cast<int32_t>(n0)};
}
inline Grouped grouped_rows(const ExpertProduct& a) {
  return {.table = a.weights,
          .order = a.order,
          .begins = a.begins,
          .gathered = a.gathered,
          .only_weights = a.only_weights,
          .only = a.only,
          .x = a.x,
          .y = a.y,
          .stride = a.outputs};
}

}  // namespace llada::cuda
