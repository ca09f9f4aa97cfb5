// Small vector helpers for the baseline NEON kernels: partial loads and stores that never touch a byte outside the
// array, and four exponentials at once. Some loops have a compile-time index, since lane numbers must be constants.
#pragma once
#include <arm_neon.h>

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace llada::kernels::neon {

#define LLADA_INLINE inline __attribute__((always_inline))

// Keeps the loads below from being moved above. Without it the compiler fetches values long before their use, and has
// no registers left for sums.
LLADA_INLINE void loads_stay_behind() { asm volatile("" ::: "memory"); }

// Zero made on the spot: the compiler keeps one in a register to copy from, which the sums need.
LLADA_INLINE int32x4_t fresh_zero() {
  int32x4_t zero;
  asm volatile("movi %0.4s, #0" : "=w"(zero));
  return zero;
}

// body(std::integral_constant<int, 0>) ... body(std::integral_constant<int, N - 1>).
template <int N, class Body>
LLADA_INLINE void unroll(Body&& body) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (body(std::integral_constant<int, I>{}), ...);
  }(std::make_integer_sequence<int, N>{});
}

// The first min(count, 4) floats; the others are `fill`.
LLADA_INLINE float32x4_t load_some(const float* p, int64_t count, float fill = 0) {
  if (count >= 4) return vld1q_f32(p);
  float lanes[4] = {fill, fill, fill, fill};
  for (int64_t i = 0; i < count; ++i) lanes[i] = p[i];
  return vld1q_f32(lanes);
}

LLADA_INLINE void store_some(float* p, int64_t count, float32x4_t v) {
  if (count >= 4) return vst1q_f32(p, v);
  float lanes[4];
  vst1q_f32(lanes, v);
  for (int64_t i = 0; i < count; ++i) p[i] = lanes[i];
}

// Four stored values as floats.
LLADA_INLINE float32x4_t load4(const float* p) { return vld1q_f32(p); }
LLADA_INLINE float32x4_t load4(const __fp16* p) {
  uint16_t bits[4];
  std::memcpy(bits, p, sizeof bits);
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(bits)));
}

// e^x within 1 ulp or so over the whole range: 0 below -104, infinity above 88.73, NaN stays NaN. x = n ln2 + r with
// |r| <= ln2 / 2; Taylor's series to r^7 (the next term is below 5e-9). 2^n is made of two factors, so that both ends
// of the float range come out right.
LLADA_INLINE float32x4_t exp4(float32x4_t x) {
  x = vmaxq_f32(vminq_f32(x, vdupq_n_f32(89.0f)), vdupq_n_f32(-105.0f));
  const float32x4_t n = vrndnq_f32(vmulq_n_f32(x, 1.44269504f));
  float32x4_t r = vfmsq_n_f32(x, n, 0.693359375f);  // ln2 in two parts; the first product is exact
  r = vfmsq_n_f32(r, n, -2.12194440e-4f);
  float32x4_t p = vdupq_n_f32(1.0f / 5040);
  p = vfmaq_f32(vdupq_n_f32(1.0f / 720), p, r);
  p = vfmaq_f32(vdupq_n_f32(1.0f / 120), p, r);
  p = vfmaq_f32(vdupq_n_f32(1.0f / 24), p, r);
  p = vfmaq_f32(vdupq_n_f32(1.0f / 6), p, r);
  p = vfmaq_f32(vdupq_n_f32(0.5f), p, r);
  p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
  p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
  const int32x4_t power = vcvtq_s32_f32(n), half = vshrq_n_s32(power, 1);
  const auto two_to = [](int32x4_t e) __attribute__((always_inline)) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(e, vdupq_n_s32(127)), 23));
  };
  return vmulq_f32(vmulq_f32(p, two_to(half)), two_to(vsubq_s32(power, half)));
}

}  // namespace llada::kernels::neon
