// The table for processors with int8 matrix multiplication (Armv8.6-A, optional from 8.2: Cortex-X2, Neoverse
// V1), compiled with it; runs only where the processor has it. One instruction multiplies two rows by two
// columns over eight values: twice the work of a dot product instruction.
#include "kernels/neon_common.h"
#include "kernels/neon_unpack-inl.h"
#include "kernels/neon_vector.h"

namespace llada::kernels::neon {
namespace {

struct Isa {
  static constexpr int kNibbleBits = 4;
  // sum[2p + j]: rows 2p, 2p + 1 by columns 2j, 2j + 1, lanes (row, column) = 00 01 10 11. A row alone works
  // as a pair.
  template <int R>
  static constexpr int kSums = R < 2 ? 2 : R;

  // Byte order: [chunk of eight values][column][value].
  static LLADA_INLINE void arrange(const Values v[kTile], int8x16_t out[8]) {
    for (int pair = 0; pair < 2; ++pair) {
      const auto put = [&](int8x16_t a8, int8x16_t b8, int8x16_t * to) __attribute__((always_inline)) {
        const int64x2_t a = vreinterpretq_s64_s8(a8), b = vreinterpretq_s64_s8(b8);
        to[pair] = vreinterpretq_s8_s64(vzip1q_s64(a, b));
        to[2 + pair] = vreinterpretq_s8_s64(vzip2q_s64(a, b));
      };
      put(v[2 * pair].low, v[2 * pair + 1].low, out);
      put(v[2 * pair].high, v[2 * pair + 1].high, out + 4);
    }
  }
  static LLADA_INLINE void store_row(int8_t* q, int row, int8x16_t low, int8x16_t high) {
    vst1_s8(q + 8 * row, vget_low_s8(low));
    vst1_s8(q + 32 + 8 * row, vget_high_s8(low));
    vst1_s8(q + 64 + 8 * row, vget_low_s8(high));
    vst1_s8(q + 96 + 8 * row, vget_high_s8(high));
  }

  // dot += w . x over values [16 * kFrom, 16 * kTo).
  template <int R, int kFrom, int kTo, bool kSmall>
  static LLADA_INLINE void dots(const int8x16_t w[8], const int8_t* x0, const int8_t* x1, int32x4_t* dot) {
#pragma GCC unroll 8
    for (int chunk = 2 * kFrom; chunk < 2 * kTo; ++chunk)
      unroll<(R + 1) / 2>([&](auto p) __attribute__((always_inline)) {
        const int8x16_t x = vld1q_s8((p < 2 ? x0 : x1) + 32 * chunk + 16 * (p % 2));
        dot[2 * p] = vmmlaq_s32(dot[2 * p], x, w[2 * chunk]);
        dot[2 * p + 1] = vmmlaq_s32(dot[2 * p + 1], x, w[2 * chunk + 1]);
      });
  }

  static LLADA_INLINE float32x4_t low_pair(float32x4_t a, float32x4_t b) {
    return vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
  }
  static LLADA_INLINE float32x4_t high_pair(float32x4_t a, float32x4_t b) {
    return vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
  }
  static LLADA_INLINE void spread(float32x4_t columns, float32x4_t out[2]) {
    out[0] = low_pair(columns, columns);
    out[1] = high_pair(columns, columns);
  }
  template <int kIndex>
  static LLADA_INLINE float32x4_t scaled(float32x4_t sum, float32x4_t product, const float32x4_t rows[2]) {
    const float32x4_t four = rows[kIndex / 4];
    return vfmaq_f32(sum, product, kIndex % 4 < 2 ? vzip1q_f32(four, four) : vzip2q_f32(four, four));
  }
  // Tiles of two by two <-> a vector of four columns for each row; its own inverse.
  template <int kCount>
  static LLADA_INLINE void exchange(float32x4_t* sum) {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; i += 2) {
      const float32x4_t first = low_pair(sum[i], sum[i + 1]), second = high_pair(sum[i], sum[i + 1]);
      sum[i] = first;
      sum[i + 1] = second;
    }
  }
};

}  // namespace
}  // namespace llada::kernels::neon

#include "kernels/neon_digest-inl.h"
#include "kernels/neon_integer-inl.h"

namespace llada::kernels::neon::digests {
namespace {

inline constexpr bool kPairs = true, kValuesByWord = false, kSkipsHalf = false;

// Eight columns of eight rows: 16 sums of two rows and two columns, two words of each at a time.
template <bool kMix, class Put>
LLADA_INLINE void products(const int32_t* rows, const int32_t* columns, int64_t count, int words, int,
                           const int32x4_t (&start)[2], const Put& put) {
  const auto multiply = [](int32x4_t sum, int32x4_t row, int32x4_t column) __attribute__((always_inline)) {
    if constexpr (kMix)
      return vreinterpretq_s32_u32(
          vmmlaq_u32(vreinterpretq_u32_s32(sum), vreinterpretq_u8_s32(row), vreinterpretq_u8_s32(column)));
    else
      return vmmlaq_s32(sum, vreinterpretq_s8_s32(row), vreinterpretq_s8_s32(column));
  };
  for (int64_t c = 0; c < count; c += 8) {
    int32x4_t sum[4][4];  // [pair of columns][pair of rows]
    unroll<16>([&](auto i) __attribute__((always_inline)) { sum[i / 4][i % 4] = vdupq_n_s32(0); });
    const int32_t *row = rows, *column = columns + c * words;
    for (int i = 0; i < words; i += 2, row += 16, column += 4) {
      int32x4_t a[4];
      unroll<4>([&](auto p) __attribute__((always_inline)) { a[p] = vld1q_s32(row + 4 * p); });
      unroll<4>([&](auto q) __attribute__((always_inline)) {
        const int32x4_t b = vld1q_s32(column + q * 2 * words);
        unroll<4>([&](auto p) __attribute__((always_inline)) { sum[q][p] = multiply(sum[q][p], a[p], b); });
      });
    }
    unroll<4>([&](auto q) __attribute__((always_inline)) {
      unroll<2>([&](auto t) __attribute__((always_inline)) {
        put(c + 2 * q, t, vaddq_s32(start[t], vuzp1q_s32(sum[q][2 * t], sum[q][2 * t + 1])));
        put(c + 2 * q + 1, t, vaddq_s32(start[t], vuzp2q_s32(sum[q][2 * t], sum[q][2 * t + 1])));
      });
    });
  }
}

LLADA_INLINE void store_weights(int32_t* at, int t, int32x4_t w0, int32x4_t w1) {
  vst1q_s32(at + 8 * t, vzip1q_s32(w0, w1));
  vst1q_s32(at + 8 * t + 4, vzip2q_s32(w0, w1));
}

}  // namespace
}  // namespace llada::kernels::neon::digests

#define LLADA_VECTOR_NAMESPACE neon::digests
#include "kernels/digest-inl.h"

namespace llada::kernels {

const KernelTable* neon_i8mm_table() {
  static constexpr KernelTable table = [] {
    KernelTable t = neon::make_table("neon_i8mm");
    neon::digests::set_digest_kernels<neon::attention>(t);
    return t;
  }();
  return neon::has_i8mm() ? &table : nullptr;
}

}  // namespace llada::kernels
