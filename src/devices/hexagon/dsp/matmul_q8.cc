// Q8_0 tiles x int8 rows, four rows at a time. Dots have 20 bits: the scale's multiplication takes them as words.
#include "devices/hexagon/dsp/tile.h"

namespace dsp {
namespace {

constexpr int kVectors = 8;  // of a block

DSP_INLINE void block(const BlockQ8& a, const HVX_Vector* w, HVX_Vector scale, HVX_Vector* sums) {
  HVX_Vector dots[4];
#pragma clang loop unroll(full)
  for (int g = 0; g < kVectors / 2; ++g) {
    const HVX_Vector first = w[2 * g], second = w[2 * g + 1];
#pragma clang loop unroll(full)
    for (int r = 0; r < 4; ++r) {
      dots[r] =
          Q6_Vw_vrmpyacc_VwVubRb(g == 0 ? Q6_V_vsplat_R(of_row(a.correction, r)) : dots[r], first, a.q[g][r].low());
      dots[r] = Q6_Vw_vrmpyacc_VwVubRb(dots[r], second, a.q[g][r].high());
    }
  }
#pragma clang loop unroll(full)
  for (int r = 0; r < 4; ++r) {
    // vmpyo takes the odd halfwords: those are the odd row's, the even row's are moved there.
    HVX_Vector scales = Q6_Vh_vmpy_VhRh_s1_rnd_sat(scale, of_row(&a.mantissa, r / 2));
    if (r % 2 == 0) scales = Q6_Vw_vasl_VwR(scales, 16);
    // floor((dot * 2^11) * scale / 2^15)
    const HVX_Vector product = Q6_Vw_vmpyo_VwVh_s1_sat(Q6_Vw_vasl_VwR(dots[r], 11), scales);
    sums[r] = Q6_Vw_vasracc_VwVwR(sums[r], product, of_row(a.shift, r));
  }
}

__attribute__((noinline)) void rows(const TileJob& job, HVX_Vector* out) {
  sum_blocks<4, kVectors, BlockQ8>(job, out,
                                   [](const BlockQ8& a, const HVX_Vector* w, HVX_Vector scale, HVX_Vector* sums)
                                       DSP_LAMBDA { block(a, w, scale, sums); });
}

}  // namespace

void multiply_q8(const TileJob& job) {
  HVX_Vector sums[4];
  rows(job, sums);
  finish(job, sums);
}

}  // namespace dsp
