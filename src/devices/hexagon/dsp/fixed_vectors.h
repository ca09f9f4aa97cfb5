// fixed_math.h by lanes of the vector unit, bit for bit; and sums and products of IEEE single precision, which this
// vector unit does not have, in integers.
//
// product() and sum() give the very bits of the scalar instructions (nearest, ties to even) for ordinary operands and
// results. The others are noted in an Odd: numbers that are not finite, are below normal ones, or leave their range.
// Whoever finds any() computes these elements again with scalar floats (rows_plain.h), so the results do not depend on
// the way.
#pragma once
#include "devices/hexagon/dsp/fixed_math.h"
#include "devices/hexagon/dsp/hvx.h"

namespace dsp {

#define DSP_VECTOR inline __attribute__((always_inline)) HVX_Vector

DSP_VECTOR splat(int32_t v) { return Q6_V_vsplat_R(v); }
DSP_VECTOR splat(float v) { return Q6_V_vsplat_R(static_cast<int32_t>(bits_of(v))); }
DSP_VECTOR load(const float* at) { return *reinterpret_cast<const HVX_UVector*>(at); }
inline __attribute__((always_inline)) void store(float* at, HVX_Vector v) { *reinterpret_cast<HVX_UVector*>(at) = v; }
DSP_VECTOR magnitude_of(HVX_Vector bits) { return Q6_V_vand_VV(bits, splat(0x7fffffff)); }
DSP_VECTOR sign_of(HVX_Vector bits) { return Q6_V_vand_VV(bits, splat(INT32_MIN)); }
// value where sign is zero, -value where it is all ones.
DSP_VECTOR with_sign(HVX_Vector value, HVX_Vector sign) { return Q6_Vw_vsub_VwVw(Q6_V_vxor_VV(value, sign), sign); }
DSP_VECTOR lane_numbers() {
  alignas(128) static constexpr int32_t kNumbers[kLanes] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                                            11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                                            22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
  return *reinterpret_cast<const HVX_Vector*>(kNumbers);
}

inline int32_t reduce_max(HVX_Vector v) {
  for (int32_t step = 64; step >= 4; step /= 2) v = Q6_Vw_vmax_VwVw(v, Q6_V_vror_VR(v, step));
  return Q6_R_vextract_VR(v, 0);
}
inline int32_t reduce_min(HVX_Vector v) {
  for (int32_t step = 64; step >= 4; step /= 2) v = Q6_Vw_vmin_VwVw(v, Q6_V_vror_VR(v, step));
  return Q6_R_vextract_VR(v, 0);
}
inline int32_t reduce_sum(HVX_Vector v) {
  for (int32_t step = 64; step >= 4; step /= 2) v = Q6_Vw_vadd_VwVw(v, Q6_V_vror_VR(v, step));
  return Q6_R_vextract_VR(v, 0);
}

DSP_VECTOR multiply_q31(HVX_Vector a, HVX_Vector b) {
  return Q6_Vw_vmpyoacc_VwVwVh_s1_rnd_sat_shift(Q6_Vw_vmpye_VwVuh(a, b), a, b);
}

DSP_VECTOR power_of_fraction(HVX_Vector t) {
  const HVX_Vector f = Q6_Vw_vasl_VwR(Q6_V_vand_VV(t, splat(0x7fffff)), 8);
  HVX_Vector p = splat(kPower[5]);
#pragma clang loop unroll(full)
  for (int k = 4; k >= 0; --k) p = Q6_Vw_vadd_VwVw(multiply_q31(p, f), splat(kPower[k]));
  return Q6_Vw_vadd_VwVw(multiply_q31(p, f), splat(kOne30));
}

DSP_VECTOR reciprocal_q30(HVX_Vector d) {
  HVX_Vector r = Q6_Vw_vadd_VwVw(splat(kReciprocalAtZero), multiply_q31(d, splat(kReciprocalSlope)));
#pragma clang loop unroll(full)
  for (int i = 0; i < 3; ++i) {
    const HVX_Vector missing = Q6_Vw_vsub_VwVw(splat(kOne30 >> 1), multiply_q31(d, r));
    r = Q6_Vw_vadd_VwVw(r, multiply_q31(r, Q6_Vw_vasl_VwR(missing, 2)));
  }
  return r;
}

DSP_VECTOR distance_q24(HVX_Vector x) {
  const HVX_Vector bits = magnitude_of(x), field = Q6_Vuw_vlsr_VuwR(bits, 23);
  const HVX_Vector mantissa = Q6_V_vor_VV(Q6_Vw_vasl_VwR(bits, 8), splat(INT32_MIN));
  const HVX_Vector right = Q6_Vw_vmax_VwVw(Q6_Vw_vmin_VwVw(Q6_Vw_vsub_VwVw(splat(133), field), splat(31)), splat(0));
  const HVX_Vector q25 = Q6_Vw_vlsr_VwVw(mantissa, right);
  const HVX_Vector q24 = Q6_Vw_vadd_VwVw(Q6_Vuw_vlsr_VuwR(q25, 1), Q6_V_vand_VV(q25, splat(1)));
  return Q6_V_vmux_QVV(Q6_Q_vcmp_gt_VwVw(field, splat(133)), splat(kFarthest), q24);
}

// exponent: the same in all lanes.
DSP_VECTOR fixed_q(HVX_Vector bits, HVX_Vector exponent) {
  const HVX_Vector magnitude = magnitude_of(bits), field = Q6_Vuw_vlsr_VuwR(magnitude, 23);
  const HVX_Vector leading = Q6_Vw_vasl_VwR(Q6_Vw_vmin_VwVw(field, splat(1)), 28);
  const HVX_Vector up = Q6_V_vor_VV(Q6_V_vand_VV(Q6_Vw_vasl_VwR(magnitude, 5), splat(0x0fffffe0)), leading);
  const HVX_Vector behind = Q6_Vw_vsub_VwVw(exponent, Q6_Vw_vmax_VwVw(field, splat(1)));
  return with_sign(Q6_Vw_vlsr_VwVw(up, Q6_Vw_vmin_VwVw(behind, splat(31))), Q6_Vw_vasr_VwR(bits, 31));
}

DSP_VECTOR ordered_bits(HVX_Vector bits) {
  const HVX_Vector magnitude = magnitude_of(bits);
  const HVX_VectorPred no_number = Q6_Q_vcmp_gt_VwVw(magnitude, splat(static_cast<int32_t>(kInfinityBits)));
  return Q6_V_vmux_QVV(no_number, splat(INT32_MAX), with_sign(magnitude, Q6_Vw_vasr_VwR(bits, 31)));
}

// The lanes that product() and sum() could not compute, over any number of them.
class Odd {
 public:
  // Exponents have to stay in 1 to 253; a number that is zero passes as 127.
  __attribute__((always_inline)) void note_exponent(HVX_Vector exponent) {
    largest_ = Q6_Vw_vmax_VwVw(largest_, exponent);
    smallest_ = Q6_Vw_vmin_VwVw(smallest_, exponent);
  }
  bool any() const {
    return reduce_max(Q6_Vw_vmax_VwVw(Q6_Vw_vsub_VwVw(largest_, splat(253)), Q6_Vw_vsub_VwVw(splat(1), smallest_))) > 0;
  }

 private:
  HVX_Vector largest_ = splat(127), smallest_ = splat(127);
};

// Below normal numbers it is not ordinary.
DSP_VECTOR sigmoid(HVX_Vector g, Odd& odd) {
  const HVX_Vector t = multiply_q31(distance_q24(g), splat(kHalfLog2E));
  const HVX_Vector n = Q6_Vuw_vlsr_VuwR(t, 23), p = power_of_fraction(t);
  const HVX_Vector e = Q6_Vw_vlsr_VwVw(p, Q6_Vw_vmin_VwVw(n, splat(31)));
  const HVX_Vector r = reciprocal_q30(Q6_Vw_vadd_VwVw(splat(kOne30), Q6_Vw_vmin_VwVw(e, splat(kOne30 - 1))));
  const HVX_VectorPred negative = Q6_Q_vcmp_gt_VwVw(splat(0), g);
  const HVX_Vector value = Q6_V_vmux_QVV(negative, multiply_q31(p, r), r);
  const HVX_Vector out = scaled_floats(value, Q6_V_vmux_QVV(negative, Q6_Vw_vsub_VwVw(splat(-29), n), splat(-30)));
  odd.note_exponent(Q6_Vuw_vlsr_VuwR(out, 23));
  return out;
}

// a * b. Operands are noted by their fields, but for those that the caller knows to be normal.
DSP_VECTOR product(HVX_Vector a, HVX_Vector b, Odd& odd) {
  const HVX_Vector ma = magnitude_of(a), mb = magnitude_of(b), zero = splat(0), ordinary = splat(127);
  const HVX_VectorPred no_a = Q6_Q_vcmp_eq_VwVw(ma, zero), no_b = Q6_Q_vcmp_eq_VwVw(mb, zero);
  const HVX_Vector fa = Q6_V_vmux_QVV(no_a, ordinary, Q6_Vuw_vlsr_VuwR(ma, 23));
  const HVX_Vector fb = Q6_V_vmux_QVV(no_b, ordinary, Q6_Vuw_vlsr_VuwR(mb, 23));
  odd.note_exponent(fa), odd.note_exponent(fb);
  const auto mantissa = [](HVX_Vector m) __attribute__((always_inline)) {  // its leading one at bit 30
    return Q6_Vuw_vlsr_VuwR(Q6_V_vor_VV(Q6_Vw_vasl_VwR(m, 8), splat(INT32_MIN)), 1);
  };
  const HVX_Vector x = mantissa(ma), y = mantissa(mb);
  const HVX_VectorPair whole = Q6_W_vmpyoacc_WVwVh(Q6_W_vmpye_VwVuh(x, y), x, y);
  const HVX_Vector high = Q6_V_hi_W(whole), two = Q6_Vuw_vlsr_VuwR(high, 29);  // 1: the product is 2 or more
  const HVX_Vector rest = Q6_Vw_vmin_VwVw(Q6_Vuw_vlsr_VuwR(Q6_V_lo_W(whole), 1), splat(1));
  const HVX_Vector normal = Q6_Vw_vasl_VwVw(Q6_V_vor_VV(high, rest), Q6_Vw_vsub_VwVw(splat(1), two));  // bit 29
  const HVX_Vector tie = Q6_V_vand_VV(Q6_Vuw_vlsr_VuwR(normal, 6), splat(1));
  const HVX_Vector rounded = Q6_Vuw_vlsr_VuwR(Q6_Vw_vadd_VwVw(normal, Q6_Vw_vadd_VwVw(tie, splat(31))), 6);
  // A zero's result is zero, with the sign; its exponent counts as any.
  HVX_Vector exponent = Q6_Vw_vadd_VwVw(Q6_Vw_vadd_VwVw(fa, fb), Q6_Vw_vsub_VwVw(two, splat(127)));
  exponent = Q6_V_vmux_QVV(no_a, ordinary, Q6_V_vmux_QVV(no_b, ordinary, exponent));
  odd.note_exponent(exponent);
  const HVX_Vector bits = Q6_Vw_vadd_VwVw(Q6_Vw_vasl_VwR(Q6_Vw_vsub_VwVw(exponent, splat(1)), 23), rounded);
  return Q6_V_vor_VV(Q6_V_vmux_QVV(no_a, zero, Q6_V_vmux_QVV(no_b, zero, bits)), sign_of(Q6_V_vxor_VV(a, b)));
}

// a + b.
DSP_VECTOR sum(HVX_Vector a, HVX_Vector b, Odd& odd) {
  const HVX_Vector ma = magnitude_of(a), mb = magnitude_of(b), zero = splat(0), one = splat(1);
  const HVX_Vector large = Q6_Vw_vmax_VwVw(ma, mb), small = Q6_Vw_vmin_VwVw(ma, mb);
  const HVX_Vector of_large = Q6_V_vmux_QVV(Q6_Q_vcmp_gt_VwVw(mb, ma), b, a);
  const HVX_Vector fl = Q6_Vuw_vlsr_VuwR(large, 23), fs = Q6_Vuw_vlsr_VuwR(small, 23);
  const auto mantissa = [&](HVX_Vector m, HVX_Vector field) __attribute__((always_inline)) {  // leading one at bit 29
    return Q6_V_vor_VV(Q6_V_vand_VV(Q6_Vw_vasl_VwR(m, 6), splat(0x1fffffc0)),
                       Q6_Vw_vasl_VwR(Q6_Vw_vmin_VwVw(field, one), 29));
  };
  const HVX_Vector x = mantissa(large, fl), whole = mantissa(small, fs);
  const HVX_Vector exponent_large = Q6_Vw_vmax_VwVw(fl, one);
  const HVX_Vector behind = Q6_Vw_vmin_VwVw(Q6_Vw_vsub_VwVw(exponent_large, Q6_Vw_vmax_VwVw(fs, one)), splat(31));
  const HVX_Vector shifted = Q6_Vw_vlsr_VwVw(whole, behind);
  const HVX_VectorPred exact = Q6_Q_vcmp_eq_VwVw(Q6_Vw_vasl_VwVw(shifted, behind), whole);
  const HVX_Vector y = Q6_V_vmux_QVV(exact, shifted, Q6_V_vor_VV(shifted, one));
  const HVX_Vector total = Q6_Vw_vadd_VwVw(x, with_sign(y, Q6_Vw_vasr_VwR(Q6_V_vxor_VV(a, b), 31)));
  const HVX_VectorPred nothing = Q6_Q_vcmp_eq_VwVw(total, zero);
  const HVX_Vector zeros = Q6_Vuw_vcl0_Vuw(total);
  const HVX_Vector normal = Q6_Vw_vasl_VwVw(total, zeros), top = Q6_Vuw_vlsr_VuwR(normal, 8);
  const HVX_Vector rest =
      Q6_Vw_vadd_VwVw(Q6_V_vand_VV(normal, splat(0xff)), Q6_Vw_vadd_VwVw(Q6_V_vand_VV(top, one), splat(0x7f)));
  const HVX_Vector exponent =
      Q6_V_vmux_QVV(nothing, splat(127), Q6_Vw_vsub_VwVw(Q6_Vw_vadd_VwVw(exponent_large, splat(2)), zeros));
  odd.note_exponent(exponent), odd.note_exponent(exponent_large);
  const HVX_Vector bits = Q6_Vw_vadd_VwVw(Q6_Vw_vasl_VwR(Q6_Vw_vsub_VwVw(exponent, one), 23),
                                          Q6_Vw_vadd_VwVw(top, Q6_Vuw_vlsr_VuwR(rest, 8)));
  // A zero has the sign of both, or plus.
  return Q6_V_vmux_QVV(nothing, sign_of(Q6_V_vand_VV(a, b)), Q6_V_vor_VV(bits, sign_of(of_large)));
}
DSP_VECTOR difference(HVX_Vector a, HVX_Vector b, Odd& odd) { return sum(a, Q6_V_vxor_VV(b, splat(INT32_MIN)), odd); }

}  // namespace dsp
