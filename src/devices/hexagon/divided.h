// A product of a batch whose last columns the host computes: the ops around it, and the host's part.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "devices/hexagon/batch.h"
#include "devices/hexagon/wire.h"

namespace llada::hexagon {

inline constexpr WireRef kNoRef{WIRE_NO_BUFFER, 0};
WireOp empty_op();  // with every ref absent

using HostTiles = std::array<uint32_t, 3>;  // by weight of the op: its last tiles, which are the host's

struct DividedProduct {
  WireOp show;                // goes before the op
  std::vector<WireOp> joins;  // follow it
  Batch::Part part;           // weights, shown and joined are the caller's
  int64_t shown_bytes = 0, parts_bytes = 0;
};
// Leaves the first columns to `w`. shown, parts: numbers of the buffers for its input and for the host's columns.
DividedProduct divide_product(WireOp& w, const HostTiles& tiles, uint32_t shown, uint32_t parts);

// Microseconds of a matmul with one weight on the host, the best of `repeats`, which is at least 1. The op's refs and
// the scratch lie in the buffer.
Result<double> time_on_host(const Buffer& buffer, WireOp op, uint32_t scratch, uint32_t scratch_bytes, int threads,
                            int repeats);

}  // namespace llada::hexagon
