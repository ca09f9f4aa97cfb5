// Helpers that the kernels of all tile formats share: the exponents in front of a tile, the end of a sum.
#pragma once
#include "devices/hexagon/dsp/hvx.h"
#include "devices/hexagon/dsp/matmul.h"

namespace dsp {

#define DSP_INLINE inline __attribute__((always_inline))
#define DSP_LAMBDA __attribute__((always_inline))

template <class Block>
DSP_INLINE const Block* blocks_in(const TileJob& job) {
  return reinterpret_cast<const Block*>(job.group + sizeof(RowGroup));
}

// Word `r` of pairs.
DSP_INLINE int32_t of_row(const Words* words, int r) { return r % 2 == 0 ? words[r / 2].low() : words[r / 2].high(); }

// The sums of R rows over a tile. `block` is a format's own: block(rows' block, weights, scales, sums).
template <int R, int kVectors, class Block, class BlockSums>
DSP_INLINE void sum_blocks(const TileJob& job, HVX_Vector* out, BlockSums block) {
  const auto* w = reinterpret_cast<const HVX_Vector*>(job.tile) + 1;
  const auto* a = blocks_in<Block>(job);
  const auto& head = *reinterpret_cast<const RowGroup*>(job.group);
  HVX_Vector sums[R];
#pragma clang loop unroll(full)
  for (int r = 0; r < R; ++r) sums[r] = Q6_V_vsplat_R(head.bias[r]);
  const int pairs = static_cast<int>(blocks_of(job.inputs) / 2);
  for (int i = 0; i < pairs; ++i, a += 2, w += 2 * kVectors + 1) {
    // The scales of two blocks; each twice, for the two rows that share a vector.
    const HVX_VectorPair scales = Q6_W_vshuff_VVR(w[2 * kVectors], w[2 * kVectors], -2);
    block(a[0], w, Q6_V_lo_W(scales), sums);
    block(a[1], w + kVectors, Q6_V_hi_W(scales), sums);
  }
#pragma clang loop unroll(full)
  for (int r = 0; r < R; ++r) out[r] = sums[r];
}

// From sums to floats. A call: in line it would take registers from the loops.
__attribute__((noinline)) void finish(const TileJob& job, const HVX_Vector* sums);

}  // namespace dsp
