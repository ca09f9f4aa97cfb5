// Vector helpers on top of the compiler's HVX intrinsics (128-byte vectors, integer instructions that v60 to v81 have).
// The one place where the compiler's Hexagon headers are included; the host has hvx_host.h for them.
#pragma once
#ifdef __hexagon__
#include <hexagon_types.h>
// types before protos
#include <hexagon_protos.h>
#include <hvx_hexagon_protos.h>
#else
#include "devices/hexagon/dsp/hvx_host.h"
#endif
#include <stdint.h>

namespace dsp {

constexpr uint32_t kVector = 128, kLanes = 32;

// Round-to-nearest-even F32 of value * 2^exponent per lane, as bits: below normal numbers zero, above them infinity.
inline __attribute__((always_inline)) HVX_Vector scaled_floats(HVX_Vector value, HVX_Vector exponent) {
  const HVX_Vector zero = Q6_V_vzero();
  const HVX_Vector magnitude = Q6_Vw_vabs_Vw(value);  // of -2^31 it is 2^31 as an unsigned number
  const HVX_Vector zeros = Q6_Vuw_vcl0_Vuw(magnitude);
  const HVX_Vector normal = Q6_Vw_vasl_VwVw(magnitude, zeros);  // the leading one at bit 31
  const HVX_Vector mantissa = Q6_Vuw_vlsr_VuwR(normal, 8);
  // Round on the eight bits that fall off: up above the half, and at the half when the mantissa is odd.
  const HVX_Vector odd = Q6_V_vand_VV(mantissa, Q6_V_vsplat_R(1));
  const HVX_Vector rest =
      Q6_Vw_vadd_VwVw(Q6_V_vand_VV(normal, Q6_V_vsplat_R(0xff)), Q6_Vw_vadd_VwVw(odd, Q6_V_vsplat_R(0x7f)));
  const HVX_Vector up = Q6_Vuw_vlsr_VuwR(rest, 8);
  const HVX_Vector field = Q6_Vw_vsub_VwVw(Q6_Vw_vadd_VwVw(exponent, Q6_V_vsplat_R(127 + 31)), zeros);
  // The mantissa's leading one adds 1 to the exponent field, a carry of the rounding another.
  HVX_Vector bits =
      Q6_Vw_vadd_VwVw(Q6_Vw_vasl_VwR(Q6_Vw_vsub_VwVw(field, Q6_V_vsplat_R(1)), 23), Q6_Vw_vadd_VwVw(mantissa, up));
  const HVX_Vector infinity = Q6_V_vsplat_R(0x7f800000);
  bits = Q6_V_vmux_QVV(Q6_Q_vcmp_gt_VwVw(field, Q6_V_vsplat_R(254)), infinity, bits);
  bits = Q6_V_vmux_QVV(Q6_Q_vcmp_gt_VwVw(Q6_V_vsplat_R(1), field), zero, bits);
  bits = Q6_V_vmux_QVV(Q6_Q_vcmp_eq_VwVw(value, zero), zero, bits);
  return Q6_V_vor_VV(bits, Q6_V_vand_VV(value, Q6_V_vsplat_R(static_cast<int32_t>(0x80000000u))));
}

// The same of the words' low halves as FP16: their digits, 11 bits, times 2^(exponent + field), the field at least 1;
// times a factor of 16 bits.
inline __attribute__((always_inline)) HVX_Vector floats_of_halves(HVX_Vector halves, int32_t factor,
                                                                  HVX_Vector exponent) {
  const auto splat = [](int32_t v) { return Q6_V_vsplat_R(v); };
  const HVX_Vector field = Q6_V_vand_VV(Q6_Vuw_vlsr_VuwR(halves, 10), splat(31));
  const HVX_Vector leading = Q6_Vw_vasl_VwR(Q6_Vw_vmin_VwVw(field, splat(1)), 10);
  const HVX_Vector digits = Q6_V_vor_VV(Q6_V_vand_VV(halves, splat(0x3ff)), leading);
  const HVX_Vector sign = Q6_Vw_vasr_VwR(Q6_Vw_vasl_VwR(halves, 16), 31);
  HVX_Vector value = Q6_Vw_vsub_VwVw(Q6_V_vxor_VV(digits, sign), sign);
  if (factor != 1) value = Q6_Vw_vmpyieacc_VwVwVuh(Q6_V_vzero(), value, splat(factor));
  return scaled_floats(value, Q6_Vw_vadd_VwVw(exponent, Q6_Vw_vmax_VwVw(field, splat(1))));
}

// The first `count` lanes to memory that need not be aligned. A call, lest the partial case crowd the kernels.
inline __attribute__((noinline)) void store_floats(float* to, HVX_Vector bits, uint32_t count) {
  if (count == kLanes) {
    *reinterpret_cast<HVX_UVector*>(to) = bits;
    return;
  }
  alignas(128) uint32_t lanes[kLanes];
  *reinterpret_cast<HVX_Vector*>(lanes) = bits;
  for (uint32_t i = 0; i < count; ++i) to[i] = __builtin_bit_cast(float, lanes[i]);
}

}  // namespace dsp
