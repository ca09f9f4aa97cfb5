// The types that kernels multiply by, and the conversion of the others to them when weights are packed.
// docs/lab/kernels.md has the cost in memory and in the weights' values.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace llada {

// The type that a matrix of `type` is computed as: F32, F16, BF16, Q4_0, Q4_1, Q8_0, Q8_M, Q4_K and Q6_K as
// themselves.
DType computed_type(DType type);

// The largest difference that convert_row may make to a value, as a share of the largest magnitude in its 32.
double computed_error(DType type);

// src: row_bytes(type, n) bytes. dst: row_bytes(computed_type(type), n) bytes; the two types differ. A group with a
// scale that is not finite, or beyond F16 where the computed type has one, gives values that are not finite.
void convert_row(DType type, const std::byte* src, std::byte* dst, int64_t n);

// 32 codes of FP4 (E2M1), the first half times one scale and the second times another, as Q8_0: by the rule by which
// convert_row converts NVFP4.
GroupQ8_0 q8_0_of_float4(const uint8_t* codes, float first_scale, float second_scale);

}  // namespace llada
