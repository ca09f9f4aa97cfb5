// Random stored weights without a detour over floats: groups of any type whose values have mean 0 and a given
// spread, written at the speed of memory. A group depends on the key and its index alone, so any split among
// threads gives the same bytes. The values are uniform, not Gaussian: speed does not depend on it, and
// activations stay finite through any number of layers.
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
