// Q8_0 tiles x int8 rows, four rows at a time on the vector unit. Dots have 20 bits: the scale's multiplication takes
// them as words.
#include "devices/hexagon/dsp/tile.h"

namespace dsp {
namespace {

constexpr int kVectors = 8;  // of a block

template <int R>
DSP_INLINE void block(const BlockQ8<R>& a, const HVX_Vector* w, HVX_Vector scale, HVX_Vector* sums) {
  HVX_Vector dots[R];
#pragma clang loop unroll(full)
  for (int g = 0; g < kVectors / 2; ++g) {
    const HVX_Vector first = w[2 * g], second = w[2 * g + 1];
#pragma clang loop unroll(full)
    for (int r = 0; r < R; ++r) {
      dots[r] =
          Q6_Vw_vrmpyacc_VwVubRb(g == 0 ? Q6_V_vsplat_R(of_row(a.correction, r)) : dots[r], first, a.q[g][r].low());
      dots[r] = Q6_Vw_vrmpyacc_VwVubRb(dots[r], second, a.q[g][r].high());
    }
  }
#pragma clang loop unroll(full)
  for (int r = 0; r < R; ++r) {
    // vmpyo takes the odd halfwords: those are the odd row's, the even row's are moved there.
    HVX_Vector scales = Q6_Vh_vmpy_VhRh_s1_rnd_sat(scale, of_row(a.mantissa, r / 2));
    if (r % 2 == 0) scales = Q6_Vw_vasl_VwR(scales, 16);
    // floor((dot * 2^11) * scale / 2^15)
    const HVX_Vector product = Q6_Vw_vmpyo_VwVh_s1_sat(Q6_Vw_vasl_VwR(dots[r], 11), scales);
    sums[r] = Q6_Vw_vasracc_VwVwR(sums[r], product, of_row(a.shift, r));
  }
}

template <int R>
__attribute__((noinline)) void rows(const TileJob& job, HVX_Vector* out) {
  sum_blocks<R, kVectors, BlockQ8<R>>(job, out,
                                      [](const BlockQ8<R>& a, const HVX_Vector* w, HVX_Vector scale, HVX_Vector* sums)
                                          DSP_LAMBDA { block(a, w, scale, sums); });
}

}  // namespace

void multiply_q8(const TileJob& job) {
  HVX_Vector sums[most_rows(Format::q8)];
  if (most_rows(Format::q8) == 8 && job.capacity == 8)
    rows<most_rows(Format::q8)>(job, sums);
  else
    rows<4>(job, sums);
  finish(job, sums);
}

}  // namespace dsp
