// Float functions that the DSP has no instruction for, in plain C++ with a stated error, and bit casts. No double.
#pragma once
#include <stdint.h>

#include "devices/hexagon/dsp/machine.h"

namespace dsp {

inline uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
inline float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
constexpr float kInfinity = __builtin_inff();
inline bool finite(float x) { return (bits_of(x) & 0x7f800000u) != 0x7f800000u; }

// e^x for x <= 0 (and up to 80): relative error below 2^-23; 0 below -104.
inline float exponential(float x) {
  if (!(x > -104.0f)) return x != x ? x : 0.0f;
  // x = n ln 2 + r, |r| <= ln 2 / 2; ln 2 in two parts of which the first has few digits, so n * first is exact.
  const int32_t n = round_to_int(x * 1.44269504f);
  const auto k = static_cast<float>(n);
  const float r = fma(k, 2.12194440e-4f, fma(k, -0.693359375f, x));
  float p = 1.0f / 5040;
  p = fma(p, r, 1.0f / 720);
  p = fma(p, r, 1.0f / 120);
  p = fma(p, r, 1.0f / 24);
  p = fma(p, r, 1.0f / 6);
  p = fma(p, r, 0.5f);
  p = fma(p, r, 1.0f);
  p = fma(p, r, 1.0f);
  if (n >= -125) return p * float_of(static_cast<uint32_t>(n + 127) << 23);
  return p * float_of(static_cast<uint32_t>(n + 64 + 127) << 23) * 0x1p-64f;  // the result is below normal numbers
}

// 1 / sqrt(x) for a positive normal x: relative error below 1.5 * 2^-24 to first order.
inline float inverse_sqrt(float x) {
  float y = float_of(0x5f375a86u - (bits_of(x) >> 1));  // within 4 %; each step squares the error
  for (int i = 0; i < 4; ++i) {
    const float h = 0.5f * x * y;
    y = fma(y, fma(-h, y, 0.5f), y);
  }
  return y;
}

inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = half >> 10 & 0x1f, mantissa = half & 0x3ffu;
  if (exponent == 0x1f) return float_of(sign | 0x7f800000u | mantissa << 13);
  if (exponent != 0) return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
  return float_of(sign | bits_of(static_cast<float>(mantissa) * 0x1p-24f));
}

// Round to nearest even, overflow to infinity, subnormals kept: the same bits as tensor/half.h.
inline uint16_t float_to_half(float value) {
  const uint32_t sign = bits_of(value) >> 16 & 0x8000u, magnitude = bits_of(value) & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) return static_cast<uint16_t>(sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u));
  return static_cast<uint16_t>(sign | (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13);
}

}  // namespace dsp
