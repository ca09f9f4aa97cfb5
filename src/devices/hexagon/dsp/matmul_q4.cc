// Q4_0 tiles x int8 rows, by eight rows or four. Per block of 32 inputs: 8 multiply-accumulates of 4 bytes per row and
// 32 outputs; then the dots of two rows, which fit 16 bits once the zero point is subtracted, share one vector for the
// scale's multiplication.
#include "devices/hexagon/dsp/tile.h"

namespace dsp {
namespace {

constexpr int kVectors = 4;  // of a block

template <int R>
DSP_INLINE void scale_pair(const BlockQ4<R>& a, int r, HVX_Vector even, HVX_Vector odd, HVX_Vector scale,
                           HVX_Vector* sums) {
  // Dots are right modulo 2^16 before the correction and fit after it.
  const HVX_Vector dots = Q6_Vh_vadd_VhVh(Q6_Vh_vshuffe_VhVh(odd, even), Q6_V_vsplat_R(a.pair[r / 2].low()));
  const HVX_Vector scales = Q6_Vh_vmpy_VhRh_s1_rnd_sat(scale, a.pair[r / 2].high());
  const HVX_VectorPair products = Q6_Ww_vmpy_VhVh(dots, scales);
  sums[r] = Q6_Vw_vasracc_VwVwR(sums[r], Q6_V_lo_W(products), a.shift[r / 2].low());
  sums[r + 1] = Q6_Vw_vasracc_VwVwR(sums[r + 1], Q6_V_hi_W(products), a.shift[r / 2].high());
}

DSP_INLINE HVX_Vector low_nibbles(HVX_Vector v) { return Q6_V_vand_VV(v, Q6_V_vsplat_R(0x0f0f0f0f)); }
DSP_INLINE HVX_Vector high_nibbles(HVX_Vector v) { return Q6_Vub_vlsr_VubR(v, 4); }

template <int R>
DSP_INLINE void accumulate(const BlockQ4<R>& a, int g, int r, HVX_Vector low, HVX_Vector high, HVX_Vector* dots) {
  dots[r] = g == 0 ? Q6_Vw_vrmpy_VubRb(low, a.q[g][r].low()) : Q6_Vw_vrmpyacc_VwVubRb(dots[r], low, a.q[g][r].low());
  dots[r] = Q6_Vw_vrmpyacc_VwVubRb(dots[r], high, a.q[g][r].high());
}

// Four rows: all of them per vector of weights. Eight: two rows at a time over all the block's weights, unpacked
// once, which needs fewer live sums.
DSP_INLINE void block(const BlockQ4<4>& a, const HVX_Vector* w, HVX_Vector scale, HVX_Vector* sums) {
  HVX_Vector dots[4];
#pragma clang loop unroll(full)
  for (int g = 0; g < kVectors; ++g) {
    const HVX_Vector low = low_nibbles(w[g]), high = high_nibbles(w[g]);
#pragma clang loop unroll(full)
    for (int r = 0; r < 4; ++r) accumulate(a, g, r, low, high, dots);
  }
  scale_pair(a, 0, dots[0], dots[1], scale, sums);
  scale_pair(a, 2, dots[2], dots[3], scale, sums);
}
DSP_INLINE void block(const BlockQ4<8>& a, const HVX_Vector* w, HVX_Vector scale, HVX_Vector* sums) {
  HVX_Vector low[kVectors], high[kVectors];
#pragma clang loop unroll(full)
  for (int g = 0; g < kVectors; ++g) low[g] = low_nibbles(w[g]), high[g] = high_nibbles(w[g]);
#pragma clang loop unroll(full)
  for (int r = 0; r < 8; r += 2) {
    HVX_Vector dots[8];
#pragma clang loop unroll(full)
    for (int g = 0; g < kVectors; ++g) {
      accumulate(a, g, r, low[g], high[g], dots);
      accumulate(a, g, r + 1, low[g], high[g], dots);
    }
    scale_pair(a, r, dots[r], dots[r + 1], scale, sums);
  }
}

template <int R>
__attribute__((noinline)) void rows(const TileJob& job, HVX_Vector* out) {
  sum_blocks<R, kVectors, BlockQ4<R>>(job, out,
                                      [](const BlockQ4<R>& a, const HVX_Vector* w, HVX_Vector scale, HVX_Vector* sums)
                                          DSP_LAMBDA { block(a, w, scale, sums); });
}

}  // namespace

void multiply_q4(const TileJob& job) {
  HVX_Vector sums[8];
  if (job.capacity == 8)
    rows<8>(job, sums);
  else
    rows<4>(job, sums);
  finish(job, sums);
}

}  // namespace dsp
