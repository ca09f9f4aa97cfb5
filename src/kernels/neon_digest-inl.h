// Attention over digests for processors with dot products: the names that digest-inl.h asks for, as neon_dotprod.cc and
// neon_i8mm.cc share them. Each includes this, then defines kPairs, products and store_weights, then includes
// digest-inl.h.
#pragma once
#include "kernels/kernels.h"
#include "kernels/neon_vector.h"

namespace llada::kernels::neon::digests {
namespace {

using Vec = float32x4_t;
using Ints = int32x4_t;
using Mask = uint32x4_t;
inline constexpr int kLanes = 4;
inline constexpr float kMostWeight = 255;
inline constexpr int32_t kKeyFlip = 0,
                         kValueFlip = static_cast<int32_t>(0x80808080);  // weights and values: both unsigned

LLADA_INLINE Vec zero() { return vdupq_n_f32(0); }
LLADA_INLINE Vec fill(float x) { return vdupq_n_f32(x); }
LLADA_INLINE Ints fill_int(int x) { return vdupq_n_s32(x); }
LLADA_INLINE Vec load(const float* p) { return vld1q_f32(p); }
LLADA_INLINE Ints load(const int32_t* p) { return vld1q_s32(p); }
LLADA_INLINE void store(float* p, Vec x) { vst1q_f32(p, x); }
LLADA_INLINE void store(int32_t* p, Ints x) { vst1q_s32(p, x); }
LLADA_INLINE Vec load_f16(const uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
LLADA_INLINE Vec add(Vec a, Vec b) { return vaddq_f32(a, b); }
LLADA_INLINE Ints add(Ints a, Ints b) { return vaddq_s32(a, b); }
LLADA_INLINE Vec sub(Vec a, Vec b) { return vsubq_f32(a, b); }
LLADA_INLINE Vec mul(Vec a, Vec b) { return vmulq_f32(a, b); }
LLADA_INLINE Vec fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
LLADA_INLINE Vec max(Vec a, Vec b) { return vmaxq_f32(a, b); }
LLADA_INLINE Mask greater(Vec a, Vec b) { return vcgtq_f32(a, b); }
LLADA_INLINE Mask both(Mask a, Mask b) { return vandq_u32(a, b); }
LLADA_INLINE Vec choose(Mask m, Vec yes, Vec no) { return vbslq_f32(m, yes, no); }
LLADA_INLINE Vec to_float(Ints x) { return vcvtq_f32_s32(x); }
LLADA_INLINE Ints times_minus_128(Ints x) { return vnegq_s32(vshlq_n_s32(x, 7)); }
LLADA_INLINE Vec power(Vec x) { return vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(x), 23)); }

template <int h>
LLADA_INLINE Vec swap_lanes(Vec x) {
  if constexpr (h == 1) return vrev64q_f32(x);
  return vextq_f32(x, x, 2);
}

// Adding 1.5 * 2^23 leaves a rounded number in the low bits.
LLADA_INLINE Ints bytes(Vec a, Vec b, Vec c, Vec d, Vec sa, Vec sb, Vec sc, Vec sd) {
  const auto rounded = [](Vec x, Vec s) __attribute__((always_inline)) {
    return vreinterpretq_s32_f32(vfmaq_f32(vdupq_n_f32(12582912.0f), x, s));
  };
  const Ints ab = vsliq_n_s32(rounded(a, sa), rounded(b, sb), 8);
  return vsliq_n_s32(vsliq_n_s32(ab, rounded(c, sc), 16), rounded(d, sd), 24);
}

LLADA_INLINE Ints add_bytes(Ints sum, Ints word) {
  return vreinterpretq_s32_u32(vdotq_u32(vreinterpretq_u32_s32(sum), vreinterpretq_u8_s32(word), vdupq_n_u8(1)));
}

}  // namespace
}  // namespace llada::kernels::neon::digests
