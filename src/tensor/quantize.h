// Scalar reference conversion between stored types and float rows. This is the definition of every type, and kernels
// are tested against it. The writers produce bytes identical to ggml's quantizers. Q8_0 rounds half away from zero as
// roundf does, Q4_0 truncates after +8.5, and scales are stored as F16.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace llada {

// src: row_bytes(type, n) bytes, any type. dst: n floats. n is a multiple of the group.
void dequantize_row(DType type, const std::byte* src, float* dst, int64_t n);

// src: n floats. dst: row_bytes(type, n) bytes. can_quantize(type) must hold. weights: n numbers >= 0, how much an
// error at each place counts (mean squares of a matrix's inputs); null where nothing is known. Float types and Q8_0
// have no use for them.
bool can_quantize(DType type);
bool uses_weights(DType type);
void quantize_row(DType type, const float* src, std::byte* dst, int64_t n, const float* weights = nullptr);

}  // namespace llada
