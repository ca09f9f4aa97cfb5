// Quantizers of blocks of 256 values, and of IQ4_NL's 32. Private to tensor.
#pragma once
#include <cstddef>

#include "tensor/dtype.h"

namespace llada {

bool can_quantize_block(DType type);

// x: traits(type).elements values. weights: as many, how much an error at each counts; null: a rule of the type's.
void quantize_block(DType type, const float* x, const float* weights, std::byte* out);

}  // namespace llada
