// The table for Armv8.2-A with the dot product instructions (e.g. Cortex-A76), compiled with them; runs only
// where the processor has them. One instruction multiplies four columns by one row over four values, so the
// sums of four columns build up in the lanes and nothing is ever added across a vector.
#include "kernels/neon_common.h"
#include "kernels/neon_unpack-inl.h"
#include "kernels/neon_vector.h"

namespace llada::kernels::neon {
namespace {

struct Isa {
  static constexpr int kNibbleBits = 4;
  template <int R>
  static constexpr int kSums = R;  // sum[r]: four columns of row r

  // Byte order: [chunk of four values][column][value].
  static LLADA_INLINE void arrange(const Values v[kTile], int8x16_t out[8]) {
    transpose(v[0].low, v[1].low, v[2].low, v[3].low, out);
    transpose(v[0].high, v[1].high, v[2].high, v[3].high, out + 4);
  }
  static LLADA_INLINE void transpose(int8x16_t a, int8x16_t b, int8x16_t c, int8x16_t d, int8x16_t out[4]) {
    const int32x4_t a4 = vreinterpretq_s32_s8(a), b4 = vreinterpretq_s32_s8(b), c4 = vreinterpretq_s32_s8(c),
                    d4 = vreinterpretq_s32_s8(d);
    const int64x2_t ab0 = vreinterpretq_s64_s32(vzip1q_s32(a4, b4)), ab1 = vreinterpretq_s64_s32(vzip2q_s32(a4, b4));
    const int64x2_t cd0 = vreinterpretq_s64_s32(vzip1q_s32(c4, d4)), cd1 = vreinterpretq_s64_s32(vzip2q_s32(c4, d4));
    out[0] = vreinterpretq_s8_s64(vzip1q_s64(ab0, cd0));
    out[1] = vreinterpretq_s8_s64(vzip2q_s64(ab0, cd0));
    out[2] = vreinterpretq_s8_s64(vzip1q_s64(ab1, cd1));
    out[3] = vreinterpretq_s8_s64(vzip2q_s64(ab1, cd1));
  }
  static LLADA_INLINE void store_row(int8_t* q, int row, int8x16_t low, int8x16_t high) {
    int8_t natural[kGroup];
    vst1q_s8(natural, low);
    vst1q_s8(natural + 16, high);
    for (int chunk = 0; chunk < 8; ++chunk) std::memcpy(q + 16 * chunk + 4 * row, natural + 4 * chunk, 4);
  }

  // dot[r] += w . x over values [16 * kFrom, 16 * kTo).
  template <int R, int kFrom, int kTo, bool kSmall>
  static LLADA_INLINE void dots(const int8x16_t w[8], const int8_t* x0, const int8_t* x1, int32x4_t dot[R]) {
#pragma GCC unroll 8
    for (int chunk = 4 * kFrom; chunk < 4 * kTo; ++chunk) {
      if (chunk % 2 == 0) loads_stay_behind();
      const int8x16_t x[2] = {vld1q_s8(x0 + 16 * chunk), vld1q_s8(x1 + 16 * chunk)};
      unroll<R>([&](auto r)
                    __attribute__((always_inline)) { dot[r] = vdotq_laneq_s32(dot[r], w[chunk], x[r / 4], r % 4); });
    }
  }

  static LLADA_INLINE void spread(float32x4_t columns, float32x4_t out[2]) { out[0] = out[1] = columns; }
  template <int kIndex>
  static LLADA_INLINE float32x4_t scaled(float32x4_t sum, float32x4_t product, const float32x4_t rows[2]) {
    return vfmaq_laneq_f32(sum, product, rows[kIndex / 4], kIndex % 4);
  }
  template <int kCount>
  static LLADA_INLINE void exchange(float32x4_t*) {}
};

}  // namespace
}  // namespace llada::kernels::neon

#include "kernels/neon_digest-inl.h"
#include "kernels/neon_integer-inl.h"

namespace llada::kernels::neon::digests {
namespace {

inline constexpr bool kPairs = false, kValuesByWord = false, kSkipsHalf = false;

// Eight columns of eight rows: 16 sums, four words of each column at a time.
template <bool kMix, class Put>
LLADA_INLINE void products(const int32_t* rows, const int32_t* columns, int64_t count, int words, int,
                           const int32x4_t (&start)[2], const Put& put) {
  const auto dot = [](int32x4_t sum, int32x4_t row, int32x4_t column, auto lane) __attribute__((always_inline)) {
    if constexpr (kMix)
      return vreinterpretq_s32_u32(
          vdotq_laneq_u32(vreinterpretq_u32_s32(sum), vreinterpretq_u8_s32(row), vreinterpretq_u8_s32(column), lane));
    else
      return vdotq_laneq_s32(sum, vreinterpretq_s8_s32(row), vreinterpretq_s8_s32(column), lane);
  };
  for (int64_t c = 0; c < count; c += 8) {
    int32x4_t x[8], y[8];
    unroll<8>([&](auto j) __attribute__((always_inline)) { x[j] = start[0], y[j] = start[1]; });
    const int32_t *row = rows, *column = columns + c * words;
    for (int i = 0; i < words; i += 4, row += 32, column += 4) {
      int32x4_t b[8];
      unroll<8>([&](auto j) __attribute__((always_inline)) { b[j] = vld1q_s32(column + j * words); });
      unroll<4>([&](auto lane) __attribute__((always_inline)) {
        const int32x4_t a0 = vld1q_s32(row + 8 * lane), a1 = vld1q_s32(row + 8 * lane + 4);
        unroll<8>([&](auto j) __attribute__((always_inline)) {
          x[j] = dot(x[j], a0, b[j], lane);
          y[j] = dot(y[j], a1, b[j], lane);
        });
      });
    }
    unroll<8>([&](auto j) __attribute__((always_inline)) {
      put(c + j, 0, x[j]);
      put(c + j, 1, y[j]);
    });
  }
}

LLADA_INLINE void store_weights(int32_t* at, int t, int32x4_t w0, int32x4_t w1) {
  vst1q_s32(at + 4 * t, w0);
  vst1q_s32(at + 8 + 4 * t, w1);
}

}  // namespace
}  // namespace llada::kernels::neon::digests

#define LLADA_VECTOR_NAMESPACE neon::digests
#include "kernels/digest-inl.h"

namespace llada::kernels {

const KernelTable* neon_dotprod_table() {
  static constexpr KernelTable table = [] {
    KernelTable t = neon::make_table("neon_dotprod");
    neon::digests::set_digest_kernels<neon::attention>(t);
    return t;
  }();
  return neon::has_dotprod() ? &table : nullptr;
}

}  // namespace llada::kernels
