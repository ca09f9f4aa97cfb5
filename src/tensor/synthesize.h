// Random stored weights of any type, made without floats at the speed of memory: values with mean 0 and a given
// standard deviation. A group depends on the key and its index alone, so any split among threads gives the same bytes.
// The values are uniform, not Gaussian: activations stay finite through any number of layers.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace llada {

// Splits of a tensor must fall on multiples of this many groups.
inline constexpr int64_t kSynthesisUnit = 4;

// Groups [first, last) of a tensor (elements for float types) to dst. spread: standard deviation.
void synthesize_groups(DType type, uint64_t key, double spread, int64_t first, int64_t last, std::byte* dst);

}  // namespace llada
