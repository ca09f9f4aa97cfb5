// The content of a stored group of each quantized type: the definition of the types. Private to tensor.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace llada {

// 32 consecutive values of a row: value i is scale[i / 16] * q[i] + offset[i / 16]. Products of scales are exact in
// float for every type.
struct QuantGroup {
  float scale[2], offset[2];
  int8_t q[32];
};

inline constexpr int8_t kFloat4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};  // E2M1, doubled

// The levels of IQ4_NL and IQ4_XS.
inline constexpr int8_t kFourBits[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

constexpr bool has_offset(DType type) {
  return type == DType::Q4_1 || type == DType::Q5_1 || type == DType::Q4_K || type == DType::Q5_K ||
         type == DType::Q2_K || type == DType::Q8_M;
}

// Group `index` of 32 of a stored row of a quantized type.
QuantGroup read_group(DType type, const std::byte* row, int64_t index);

}  // namespace llada
