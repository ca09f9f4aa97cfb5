// Weights as the DSP's kernels read them: which layout a stored type gets, how large it is, and the packing itself.
// Pure functions; wire.h defines the layouts. A scale of a group becomes 16 bits relative to a power of two per output.
// It is exact for groups of Q4_0 and Q8_0 whose scale is above 1/16 of the output's largest, else off by at most 2^-16
// of that power of two. F16 and BF16 become 16-bit integers per group of 32 with a power-of-two scale: off by at most
// 2^-15 of the group's largest. Deliberately absent: other quantized types, which belong on the host.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "devices/hexagon/wire.h"
#include "tensor/view.h"

namespace llada::hexagon {

// The layout in which the DSP takes a matrix of this type, or a vector; nothing where it cannot.
std::optional<WireLayout> layout_for(DType type, bool vector = false);

// Bytes of a weight in its layout, rounded up to 128. inputs: a multiple of the type's group.
int64_t layout_bytes(WireLayout layout, int64_t outputs, int64_t inputs);

// Outputs [n0, n1) of the weight to their place in `packed`, which has layout_bytes() bytes. For tiles n0 is a multiple
// of 32 and n1 too or the number of outputs; disjoint ranges may be packed in parallel. A stored layout is a copy of
// the bytes. layout is the result of layout_for() for the weight's type. Returned is the first output with a value that
// is not finite, if there is one: integers cannot carry it, so such a weight must not be used.
std::optional<int64_t> pack(WireLayout layout, const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed);

}  // namespace llada::hexagon
