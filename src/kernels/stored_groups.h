// Sizes of the groups that kernels pack as constants, for loops that cannot call tensor/dtype.h for each group.
#pragma once
#include <cstdint>

#include "tensor/dtype.h"

namespace llada::kernels {

// Groups of 256 elements instead of 32.
constexpr bool super_type(DType type) { return type == DType::Q4_K || type == DType::Q6_K; }
constexpr int64_t stored_group_bytes(DType type) {
  switch (type) {
    case DType::Q8_0:
      return sizeof(GroupQ8_0);
    case DType::Q4_0:
      return sizeof(GroupQ4_0);
    case DType::Q4_1:
      return sizeof(GroupQ4_1);
    case DType::Q8_M:
      return sizeof(GroupQ8_M);
    case DType::Q4_K:
      return sizeof(GroupQ4_K);
    default:
      return sizeof(GroupQ6_K);
  }
}
constexpr int64_t stored_row_bytes(DType type, int64_t k) {
  return k / (super_type(type) ? 256 : 32) * stored_group_bytes(type);
}

}  // namespace llada::kernels
