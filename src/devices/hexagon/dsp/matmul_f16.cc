// F16 tiles (16-bit integers with a power-of-two scale per block) x int16 rows, four rows at a time: the product of
// two 16-bit numbers as four products of their bytes, 256^2 hh + 256 (hl + lh) + ll, summed apart.
#include "devices/hexagon/dsp/tile.h"

namespace dsp {
namespace {

constexpr int kVectors = 16;  // of a block: 8 with the high bytes (+ 128), 8 with the low ones

DSP_INLINE void row(const BlockF16& a, int r, const HVX_Vector* w, HVX_Vector scale, HVX_Vector* sums) {
  HVX_Vector high = Q6_V_vzero(), middle = Q6_V_vsplat_R(of_row(a.correction, r)), low = Q6_V_vzero();
#pragma clang loop unroll(full)
  for (int g = 0; g < 8; ++g) {
    const int32_t ah = of_row(&a.high[g / 2][r], g % 2), al = of_row(&a.low[g / 2][r], g % 2);
    high = Q6_Vw_vrmpyacc_VwVubRb(high, w[g], ah);
    middle = Q6_Vw_vrmpyacc_VwVubRb(middle, w[g], al);
    middle = Q6_Vw_vrmpyacc_VwVubRb(middle, w[8 + g], ah);
    low = Q6_Vw_vrmpyacc_VwVubRb(low, w[8 + g], al);
  }
  // floor(P / 2^8): the correction takes back 128 of every high byte and is a multiple of it.
  const HVX_Vector dot = Q6_Vw_vadd_VwVw(Q6_Vw_vaslacc_VwVwR(middle, high, 8), Q6_Vw_vasr_VwR(low, 8));
  HVX_Vector scales = Q6_Vh_vmpy_VhRh_s1_rnd_sat(scale, of_row(a.mantissa, r / 2));
  if (r % 2 == 0) scales = Q6_Vw_vasl_VwR(scales, 16);
  const HVX_Vector product = Q6_Vw_vmpyo_VwVh_s1_sat(Q6_Vw_vasl_VwR(dot, 4), scales);
  sums[r] = Q6_Vw_vasracc_VwVwR(sums[r], product, of_row(a.shift, r));
}

DSP_INLINE void block(const BlockF16& a, const HVX_Vector* w, HVX_Vector scale, HVX_Vector* sums) {
#pragma clang loop unroll(full)
  for (int r = 0; r < 4; ++r) row(a, r, w, scale, sums);
}

__attribute__((noinline)) void rows(const TileJob& job, HVX_Vector* out) {
  sum_blocks<4, kVectors, BlockF16>(job, out,
                                    [](const BlockF16& a, const HVX_Vector* w, HVX_Vector scale, HVX_Vector* sums)
                                        DSP_LAMBDA { block(a, w, scale, sums); });
}

}  // namespace

void multiply_f16(const TileJob& job) {
  HVX_Vector sums[4];
  rows(job, sums);
  finish(job, sums);
}

}  // namespace dsp
