// The definition of the integer arithmetic of the kernels of rows and of the head, in plain C++ that any compiler
// takes. fixed_vectors.h has the same functions for the vector unit's lanes. Both give the same bits, on every
// processor. Words: Qn = an integer that stands for itself / 2^n.
#pragma once
#include <stdint.h>

#include "devices/hexagon/dsp/float_math.h"

namespace dsp {

constexpr uint32_t kMagnitude = 0x7fffffffu, kInfinityBits = 0x7f800000u;
constexpr int32_t kOne30 = 1 << 30;

// a * b / 2^31, as the vector unit has it: by the halves of b, rounded once.
inline int32_t multiply_q31(int32_t a, int32_t b) {
  const int64_t low = (int64_t{a} * (b & 0xffff)) >> 16;
  const int64_t q = (((low + int64_t{a} * (b >> 16)) >> 14) + 1) >> 1;
  return static_cast<int32_t>(q > INT32_MAX ? INT32_MAX : q < INT32_MIN ? INT32_MIN : q);
}

// log2(e) / 2 in Q31: a distance d in Q24 becomes t = d * log2(e) in Q23, so that e^-d = 2^-t.
constexpr int32_t kHalfLog2E = 1549082005;
constexpr int32_t kFarthest = 0x7fffffff;  // 128 in Q24, beyond which e^-d counts as that

// 2^-f in Q30 of the fraction of t in Q23: 1 + f g(f), g through six Chebyshev nodes. Off by 2^-26.5 of itself, and
// exactly 1 at 0.
constexpr int32_t kPower[6] = {-744261112, 257940802, -59591844, 10304738, -1386885, 123394};
inline int32_t power_of_fraction(int32_t t) {
  const int32_t f = (t & 0x7fffff) << 8;  // Q31
  int32_t p = kPower[5];
  for (int k = 4; k >= 0; --k) p = multiply_q31(p, f) + kPower[k];
  return multiply_q31(p, f) + kOne30;
}

// 1 / d in Q30 of d in [1, 2) in Q30, off by 2^-28 of itself: Newton's steps from a line that is off by 1/17.
constexpr int32_t kReciprocalAtZero = 1515870811, kReciprocalSlope = -1010580541;
inline int32_t reciprocal_q30(int32_t d) {
  int32_t r = kReciprocalAtZero + multiply_q31(d, kReciprocalSlope);
  for (int i = 0; i < 3; ++i) {
    const int32_t missing = (kOne30 >> 1) - multiply_q31(d, r);  // 1 - d r, halved
    r += multiply_q31(r, static_cast<int32_t>(static_cast<uint32_t>(missing) << 2));
  }
  return r;
}

// The float nearest to value * 2^exponent, ties to even; below normal numbers rounded once more. The exponent is above
// -220.
inline float scaled_float(int32_t value, int32_t exponent) {
  const uint32_t magnitude = value < 0 ? 0u - static_cast<uint32_t>(value) : static_cast<uint32_t>(value);
  if (magnitude == 0) return 0;
  const int32_t zeros = __builtin_clz(magnitude);
  const uint32_t normal = magnitude << zeros, mantissa = normal >> 8;
  const uint32_t up = ((normal & 0xff) + (mantissa & 1) + 0x7f) >> 8;
  const int32_t field = exponent + 127 + 31 - zeros;
  const uint32_t sign = static_cast<uint32_t>(value) & ~kMagnitude;
  const bool small = field < 1;
  const float out = float_of(sign | ((static_cast<uint32_t>(small ? field + 99 : field - 1) << 23) + mantissa + up));
  return small ? out * 0x1p-100f : out;
}

// |x| in Q24, rounded; kFarthest from 128 on and for values that are no number.
inline int32_t distance_q24(float x) {
  const uint32_t bits = bits_of(x) & kMagnitude;
  const int32_t field = static_cast<int32_t>(bits >> 23);
  if (field > 133) return kFarthest;
  const uint32_t mantissa = (bits & 0x7fffffu) << 8 | 0x80000000u;
  const int32_t right = 133 - field < 31 ? 133 - field : 31;
  const uint32_t q25 = mantissa >> right;
  return static_cast<int32_t>((q25 >> 1) + (q25 & 1));
}

// 1 / (1 + e^-g), off by less than 3 * 2^-24 of itself.
inline float sigmoid(float g) {
  const int32_t t = multiply_q31(distance_q24(g), kHalfLog2E);
  const int32_t n = t >> 23, p = power_of_fraction(t);
  const int32_t e = n > 31 ? 0 : static_cast<int32_t>(static_cast<uint32_t>(p) >> n);
  const int32_t r = reciprocal_q30(kOne30 + (e < kOne30 ? e : kOne30 - 1));
  if (bits_of(g) >> 31 == 0) return scaled_float(r, -30);
  return scaled_float(multiply_q31(p, r), -29 - n);
}

// A float as value * 2^(155 - exponent), towards zero; exponent: that of the largest number in its group, so that
// |result| < 2^29. An exponent is a float's field; for numbers below normal ones, the field that they would have
// without a limit.
inline int32_t exponent_of(uint32_t magnitude) {
  const int32_t field = static_cast<int32_t>(magnitude >> 23);
  return field > 0 ? field : magnitude == 0 ? 1 : 9 - __builtin_clz(magnitude);
}
inline int32_t fixed_q(float x, int32_t exponent) {
  const uint32_t bits = bits_of(x), magnitude = bits & kMagnitude;
  const int32_t field = static_cast<int32_t>(magnitude >> 23);
  const uint32_t mantissa = (magnitude & 0x7fffffu) | (field > 0 ? 0x800000u : 0);
  const int32_t behind = exponent - (field > 0 ? field : 1);
  const uint32_t up = mantissa << 5;
  const uint32_t q = behind > 31 ? 0 : behind >= 0 ? up >> behind : up << -behind;
  return bits >> 31 != 0 ? -static_cast<int32_t>(q) : static_cast<int32_t>(q);
}

// Integers that are ordered like floats; a value that is no number is the largest.
inline int32_t ordered_bits(float x) {
  const auto magnitude = static_cast<int32_t>(bits_of(x) & kMagnitude);
  if (magnitude > static_cast<int32_t>(kInfinityBits)) return INT32_MAX;
  return bits_of(x) >> 31 != 0 ? -magnitude : magnitude;
}
constexpr int32_t kOrderedNothing = -static_cast<int32_t>(kInfinityBits);

// A difference of two fixed_q() of one exponent, at least 0, as a distance in Q24.
inline int32_t distance_q24(int32_t difference, int32_t exponent) {
  const int32_t left = exponent - 131 < 30 ? exponent - 131 : 30;
  if (left > 0) return difference > kFarthest >> left ? kFarthest : difference << left;
  if (left == 0) return difference;
  const int32_t right = left < -31 ? 31 : -left;
  return ((difference >> (right - 1)) + 1) >> 1;
}

// x * 2^e, |e| <= 250, by two products.
inline float power_of_two(int32_t e) { return float_of(static_cast<uint32_t>(e + 127) << 23); }
inline float times_power(float x, int32_t e) { return x * power_of_two(e / 2) * power_of_two(e - e / 2); }

}  // namespace dsp
