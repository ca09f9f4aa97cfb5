// What the kernels of all tile formats share: the exponents in front of a tile, the end of a sum.
#pragma once
#include "devices/hexagon/dsp/hvx.h"
#include "devices/hexagon/dsp/matmul.h"

namespace dsp {

#define DSP_INLINE inline __attribute__((always_inline))

template <class Block>
DSP_INLINE const Block* blocks_in(const TileJob& job) {
  return reinterpret_cast<const Block*>(job.group + sizeof(RowGroup));
}

// Word `r` of pairs.
DSP_INLINE int32_t of_row(const Words* words, int r) { return r % 2 == 0 ? words[r / 2].low() : words[r / 2].high(); }

// Asks for the tile's bytes ahead of their use; on a machine without caches to speak of it does nothing.
DSP_INLINE void fetch_tile(const void* tile, uint32_t bytes) {
  // The second operand: stride in bits 32 and up, width in 16 to 31, height in 0 to 15.
  constexpr uint32_t kLine = 128;
  const uint32_t lines = bytes / kLine < 0xffff ? bytes / kLine : 0xffff;
  const uint64_t box = static_cast<uint64_t>(kLine) << 32 | kLine << 16 | lines;
  asm volatile("l2fetch(%0, %1)" : : "r"(tile), "r"(box));
}

// From sums to floats. A call: in line it would take registers from the loops.
__attribute__((noinline)) void finish(const TileJob& job, const HVX_Vector* sums);

}  // namespace dsp
