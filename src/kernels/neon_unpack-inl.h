// Stored quantization groups to int8 on the fly: four weight rows (a tile's columns) of one group of 32 values at a
// time, as w = scale * q + offset. neon_integer-inl.h includes this inside its anonymous namespace, once per
// instruction set; `Isa` there says how the bytes of a tile are ordered. Layouts and the meaning of fields:
// tensor/dtype.h.
#pragma once
#include <bit>
#include <cstddef>

#include "kernels/neon_common.h"
#include "kernels/neon_vector.h"
#include "tensor/dtype.h"

namespace llada::kernels::neon {
namespace {

// 32 values of one column in their natural order.
struct Values {
  int8x16_t low, high;
};

// One column's group; half 0 is values 0..15. Types with one scale per 32 values repeat it.
struct ColumnGroup {
  Values q;
  float scale[2];
  float offset;
};

LLADA_INLINE float half_to_float(uint16_t bits) { return static_cast<float>(std::bit_cast<__fp16>(bits)); }

LLADA_INLINE Values nibbles(const uint8_t* q) {
  const uint8x16_t v = vld1q_u8(q);
  return {vreinterpretq_s8_u8(vandq_u8(v, vdupq_n_u8(15))), vreinterpretq_s8_u8(vshrq_n_u8(v, 4))};
}

LLADA_INLINE Values minus(Values v, int8_t centre) {
  return {vsubq_s8(v.low, vdupq_n_s8(centre)), vsubq_s8(v.high, vdupq_n_s8(centre))};
}

// The 6-bit scale and minimum of sub-group j of a Q4_K group: 12 bytes hold eight of each.
LLADA_INLINE void scale_and_min(const uint8_t* s, int64_t j, int& scale, int& min) {
  if (j < 4) {
    scale = s[j] & 63;
    min = s[j + 4] & 63;
  } else {
    scale = (s[j + 4] & 15) | ((s[j - 4] >> 6) << 4);
    min = (s[j + 4] >> 4) | ((s[j] >> 6) << 4);
  }
}

LLADA_INLINE void k_scales(const GroupQ4_K& group, int64_t j, ColumnGroup& out) {
  int scale, min;
  scale_and_min(group.scales, j, scale, min);
  out.scale[0] = out.scale[1] = half_to_float(group.d) * static_cast<float>(scale);
  out.offset = -(half_to_float(group.dmin) * static_cast<float>(min));
}

// Sub-groups 2i and 2i + 1 of a Q4_K group are the low and high nibbles of the same 32 bytes.
LLADA_INLINE Values k_nibbles(const uint8_t* q, int64_t j) {
  const uint8_t* at = q + j / 2 * 32;
  const int8x16_t shift = vdupq_n_s8(j % 2 == 0 ? 0 : -4);
  const uint8x16_t mask = vdupq_n_u8(15);
  return {vreinterpretq_s8_u8(vandq_u8(vshlq_u8(vld1q_u8(at), shift), mask)),
          vreinterpretq_s8_u8(vandq_u8(vshlq_u8(vld1q_u8(at + 16), shift), mask))};
}

// kSmall: |q| <= 16 over 32 values with one scale, or |q| <= 32 with a scale for each 16. So sums of the products with
// int8 stay below 2^15 in the order that the multiplier without dot products adds them.
template <DType type>
struct Unpack;

template <>
struct Unpack<DType::Q8_0> {
  static constexpr bool kSmall = false, kHalves = false, kOffset = false;
  static LLADA_INLINE void group(const std::byte* row, int64_t g, ColumnGroup& out) {
    const auto& stored = reinterpret_cast<const GroupQ8_0*>(row)[g];
    out.q = {vld1q_s8(stored.q), vld1q_s8(stored.q + 16)};
    out.scale[0] = half_to_float(stored.d);
  }
};

template <>
struct Unpack<DType::Q4_0> {
  static constexpr bool kSmall = true, kHalves = false, kOffset = false;
  static LLADA_INLINE void group(const std::byte* row, int64_t g, ColumnGroup& out) {
    const auto& stored = reinterpret_cast<const GroupQ4_0*>(row)[g];
    out.q = minus(nibbles(stored.q), 8);
    out.scale[0] = half_to_float(stored.d);
  }
};

template <>
struct Unpack<DType::Q4_1> {
  static constexpr bool kSmall = true, kHalves = false, kOffset = true;
  static LLADA_INLINE void group(const std::byte* row, int64_t g, ColumnGroup& out) {
    const auto& stored = reinterpret_cast<const GroupQ4_1*>(row)[g];
    out.q = nibbles(stored.q);
    out.scale[0] = half_to_float(stored.d);
    out.offset = half_to_float(stored.m);
  }
};

template <>
struct Unpack<DType::Q8_M> {
  static constexpr bool kSmall = false, kHalves = false, kOffset = true;
  static LLADA_INLINE void group(const std::byte* row, int64_t g, ColumnGroup& out) {
    const auto& stored = reinterpret_cast<const GroupQ8_M*>(row)[g];
    out.q = {vld1q_s8(stored.q), vld1q_s8(stored.q + 16)};
    out.scale[0] = stored.d;
    out.offset = stored.m;
  }
};

template <>
struct Unpack<DType::Q4_K> {
  static constexpr bool kSmall = true, kHalves = false, kOffset = true;
  static LLADA_INLINE void group(const std::byte* row, int64_t g, ColumnGroup& out) {
    const auto& stored = reinterpret_cast<const GroupQ4_K*>(row)[g / 8];
    out.q = k_nibbles(stored.q, g % 8);
    k_scales(stored, g % 8, out);
  }
};

// Each half of 128 values has 64 bytes of low nibbles, 32 bytes of top bit pairs and eight scales. Sub-groups 0 1 are
// in the low nibbles, 2 3 in the high ones; the bit pair of sub-group s is at bit 2s.
template <>
struct Unpack<DType::Q6_K> {
  static constexpr bool kSmall = true, kHalves = true, kOffset = false;
  static LLADA_INLINE void group(const std::byte* row, int64_t g, ColumnGroup& out) {
    const auto& stored = reinterpret_cast<const GroupQ6_K*>(row)[g / 8];
    const int64_t half = g % 8 / 4, s = g % 4;
    const uint8_t* low = stored.low + half * 64 + s % 2 * 32;
    const uint8_t* high = stored.high + half * 32;
    const int8x16_t low_shift = vdupq_n_s8(s < 2 ? 0 : -4), high_shift = vdupq_n_s8(static_cast<int8_t>(-2 * s));
    const auto value = [&](int64_t at) __attribute__((always_inline)) {
      const uint8x16_t nibble = vandq_u8(vshlq_u8(vld1q_u8(low + at), low_shift), vdupq_n_u8(15));
      const uint8x16_t pair = vandq_u8(vshlq_u8(vld1q_u8(high + at), high_shift), vdupq_n_u8(3));
      return vreinterpretq_s8_u8(vorrq_u8(nibble, vshlq_n_u8(pair, 4)));
    };
    out.q = minus({value(0), value(16)}, 32);
    const float d = half_to_float(stored.d);
    const int8_t* scales = stored.scales + half * 8 + s * 2;
    out.scale[0] = d * static_cast<float>(scales[0]);
    out.scale[1] = d * static_cast<float>(scales[1]);
  }
};

}  // namespace
}  // namespace llada::kernels::neon
