// The table for any 64-bit Arm processor (Armv8-A, e.g. Cortex-A72): int8 products widened to 16 bits and added in
// pairs. Lanes run along k; four columns' sums are folded into one vector per row and group. Also the features of the
// processor for all three tables.
#include "base/system.h"
#include "kernels/neon_common.h"
#include "kernels/neon_unpack-inl.h"
#include "kernels/neon_vector.h"

namespace llada::kernels::neon {
namespace {

struct Isa {
  static constexpr int kNibbleBits = 0;
  template <int R>
  static constexpr int kSums = R;  // sum[r]: four columns of row r

  // Byte order: [values 0..15, 16..31][column][value].
  static LLADA_INLINE void arrange(const Values v[kTile], int8x16_t out[8]) {
    for (int i = 0; i < kTile; ++i) {
      out[i] = v[i].low;
      out[4 + i] = v[i].high;
    }
  }
  static LLADA_INLINE void store_row(int8_t* q, int row, int8x16_t low, int8x16_t high) {
    vst1q_s8(q + 16 * row, low);
    vst1q_s8(q + 64 + 16 * row, high);
  }

  // dot[r] += w . x over values [16 * kFrom, 16 * kTo). Two products fit in 16 bits whatever they are (2 *
  // 128 * 127); small weights (see Unpack) let all that a lane gets be added there.
  template <int R, int kFrom, int kTo, bool kSmall>
  static LLADA_INLINE void dots(const int8x16_t w[8], const int8_t* x0, const int8_t* x1, int32x4_t dot[R]) {
    unroll<R>([&](auto r) __attribute__((always_inline)) {
      const int8_t* x = (r < 4 ? x0 : x1) + 16 * (r % 4);
      int16x8_t narrow[kTile];
      int32x4_t wide[kTile];
#pragma GCC unroll 8
      for (int half = kFrom; half < kTo; ++half) {
        const int8x16_t row = vld1q_s8(x + 64 * half);
#pragma GCC unroll 8
        for (int c = 0; c < kTile; ++c) {
          const int8x16_t column = w[4 * half + c];
          if (kSmall && half > kFrom) {
            narrow[c] = vmlal_s8(narrow[c], vget_low_s8(column), vget_low_s8(row));
          } else {
            narrow[c] = vmull_s8(vget_low_s8(column), vget_low_s8(row));
          }
          narrow[c] = vmlal_high_s8(narrow[c], column, row);
          if (!kSmall) wide[c] = half == kFrom ? vpaddlq_s16(narrow[c]) : vpadalq_s16(wide[c], narrow[c]);
        }
      }
      if constexpr (kSmall) {
        dot[r] = vpadalq_s16(dot[r], vpaddq_s16(vpaddq_s16(narrow[0], narrow[1]), vpaddq_s16(narrow[2], narrow[3])));
      } else {
        dot[r] = vaddq_s32(dot[r], vpaddq_s32(vpaddq_s32(wide[0], wide[1]), vpaddq_s32(wide[2], wide[3])));
      }
    });
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

bool has_dotprod() { return arm_features().dotprod; }
bool has_i8mm() { return arm_features().i8mm; }

}  // namespace llada::kernels::neon

#include "kernels/neon_integer-inl.h"

namespace llada::kernels {

const KernelTable* neon_table() {
  static constexpr KernelTable table = neon::make_table("neon");
  return &table;
}

}  // namespace llada::kernels
