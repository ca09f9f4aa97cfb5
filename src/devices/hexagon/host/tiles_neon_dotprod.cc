// 64-bit Arm with dot products of signed bytes alone: bytes of weights lose their 128 first, and with it the correction
// for unsigned ones.
#include "devices/hexagon/host/tiles_neon-inl.h"

namespace llada::hexagon::tiles {
namespace {

struct Strip {
  static constexpr int kOutputs = 4, kRepeated = 4;

  // With w = 256 * high + 128 + low and the row's a = 256 * ah + al there remain 128 * ah of the middle and 128 * al.
  static TILE_INLINE void unpack_wide(const dsp::BlockF16& block, RowValues& to) {
    const auto sums = [](const dsp::Words q[4][4], int32_t* out) {
      int32x4_t first = vdupq_n_s32(0), second = first;
      for (int g = 0; g < 4; ++g) {
        first = vdotq_s32(first, vld1q_s8(as<int8_t>(q[g])), vdupq_n_s8(1));
        second = vdotq_s32(second, vld1q_s8(as<int8_t>(q[g] + 2)), vdupq_n_s8(1));
      }
      vst1q_s32(out, vshlq_n_s32(vpaddq_s32(first, second), 7));
    };
    int32_t high[4], low[4];
    sums(block.high, high);
    sums(block.low, low);
    for (int r = 0; r < 4; ++r) put<kRepeated>(to.correction, r, high[r]), put<kRepeated>(to.low_correction, r, low[r]);
  }
  static TILE_INLINE int8x16_t without_128(uint8x16_t v) { return vreinterpretq_s8_u8(veorq_u8(v, vdupq_n_u8(128))); }
  // first and second by the eight inputs of two rows.
  static TILE_INLINE void dot_rows(int32x4_t dot[2], int8x16_t first, int8x16_t second, int8x16_t x) {
    dot[0] = vdotq_laneq_s32(vdotq_laneq_s32(dot[0], first, x, 0), second, x, 1);
    dot[1] = vdotq_laneq_s32(vdotq_laneq_s32(dot[1], first, x, 2), second, x, 3);
  }

  template <Format F, int R, class Block>
  static TILE_INLINE void dots(const Block& x, const uint8_t* w, const RowValues& row, int32x4_t dot[R]) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) dot[r] = F == Format::q8 ? vdupq_n_s32(0) : vld1q_s32(row.correction + 4 * r);
    if constexpr (F == Format::f16) {
      int32x4_t high[R], low[R];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) high[r] = vdupq_n_s32(0), low[r] = vld1q_s32(row.low_correction + 4 * r);
#pragma GCC unroll 4
      for (int g = 0; g < 4; ++g) {
        uint8x16_t h[2], l[2];
        load_inputs<F>(w, g, h[0], h[1]);
        load_inputs<F>(w + 8 * kVectorBytes, g, l[0], l[1]);
        const int8x16_t h0 = without_128(h[0]), h1 = without_128(h[1]), l0 = without_128(l[0]), l1 = without_128(l[1]);
#pragma GCC unroll 4
        for (int r = 0; r < R; r += 2) {
          const int8x16_t ah = vld1q_s8(as<int8_t>(&x.high[g][r])), al = vld1q_s8(as<int8_t>(&x.low[g][r]));
          dot_rows(high + r, h0, h1, ah);
          dot_rows(dot + r, h0, h1, al);
          dot_rows(dot + r, l0, l1, ah);
          dot_rows(low + r, l0, l1, al);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) dot[r] = joined(high[r], dot[r], low[r]);
    } else {
#pragma GCC unroll 4
      for (int g = 0; g < 4; ++g) {
        uint8x16_t first, second;
        load_inputs<F>(w, g, first, second);
        const bool bytes = F == Format::q8;
        const int8x16_t w0 = bytes ? without_128(first) : vreinterpretq_s8_u8(first);
        const int8x16_t w1 = bytes ? without_128(second) : vreinterpretq_s8_u8(second);
#pragma GCC unroll 4
        for (int r = 0; r < R; r += 2) dot_rows(dot + r, w0, w1, vld1q_s8(as<int8_t>(&x.q[g][r])));
      }
    }
  }

  template <int R>
  static TILE_INLINE void add(const RowValues& row, int32x4_t scales, const int32x4_t dot[R], int32x4_t total[R]) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const int16x8_t mantissa = vreinterpretq_s16_s32(vld1q_s32(row.mantissa + 4 * r));
      const int32x4_t c = vreinterpretq_s32_s16(vqrdmulhq_s16(vreinterpretq_s16_s32(scales), mantissa));
      total[r] = add_product(total[r], dot[r], vld1q_s32(row.left + 4 * r), c, vld1q_s32(row.right + 4 * r));
    }
  }

  template <Format F, int R, class Block>
  static TILE_INLINE void add_block(const uint8_t* w, const int16_t* scales, const RowValues& row, const Block& block,
                                    int32x4_t total[R]) {
    int32x4_t dot[R];
    dots<F, R>(block, w, row, dot);
    const int32x4_t of_outputs = vshll_n_s16(vld1_s16(scales), 16);
    add<R>(row, of_outputs, dot, total);
  }

  template <Format F, int R, class Block>
  static TILE_INLINE void run(const uint8_t* tiles, int n, const RowValues* rows, const Block* blocks, int count,
                              int32_t* sums) {
    int32x4_t total[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) total[r] = vld1q_s32(sums + r * kTileOutputs);
    const uint8_t* w = tiles + 4 * n;
    // From a block to the next and to its scales: the scales of a pair are behind both.
    int64_t step = block_bytes(F), scales = 2 * block_bytes(F) - 2 * n;
    for (const Block* end = blocks + count; blocks < end; ++blocks, ++rows) {
      add_block<F, R>(w, as<int16_t>(w + scales), *rows, *blocks, total);
      w += step;
      step = pair_bytes(F) - step;
      scales = 3 * block_bytes(F) + 2 * kTileOutputs - 4 * n - scales;
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) vst1q_s32(sums + r * kTileOutputs, total[r]);
  }
};

}  // namespace

void neon_dotprod(dsp::Format format, const dsp::TileJob& job) { multiply_tile<Strip>(format, job); }

}  // namespace llada::hexagon::tiles
