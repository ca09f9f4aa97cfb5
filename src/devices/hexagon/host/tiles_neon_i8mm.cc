// 64-bit Arm with int8 matrix multiplication: two outputs by two rows in a register, eight inputs an instruction.
#include "devices/hexagon/host/tiles_neon-inl.h"

namespace llada::hexagon::tiles {
namespace {

// Lanes of every vector: outputs (0, 0, 1, 1) by rows (0, 1, 0, 1).
struct Strip {
  static constexpr int kOutputs = 4, kRepeated = 2;

  static TILE_INLINE void unpack_wide(const dsp::BlockF16&, RowValues&) {}

  // Two outputs of eight inputs: from two vectors of four outputs and four inputs.
  static TILE_INLINE void pair_up(uint8x16_t first, uint8x16_t second, uint8x16_t out[2]) {
    const uint32x4_t a = vreinterpretq_u32_u8(first), b = vreinterpretq_u32_u8(second);
    out[0] = vreinterpretq_u8_u32(vzip1q_u32(a, b)), out[1] = vreinterpretq_u8_u32(vzip2q_u32(a, b));
  }
  static TILE_INLINE int32x4_t of_rows(const int32_t* list, int pair) { return vld1q_s32(list + 4 * pair); }
  static TILE_INLINE int8x16_t values(const dsp::Words* two_rows) { return vld1q_s8(as<int8_t>(two_rows)); }

  template <Format F, int kPairs, class Block>
  static TILE_INLINE void dots(const Block& x, const uint8_t* w, const RowValues& row, int32x4_t dot[2][kPairs]) {
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p) {
      dot[0][p] = of_rows(row.correction, p);
      // Where registers are there a second load is cheaper than a copy: two come with one instruction.
      dot[1][p] = F == Format::q8 ? of_rows(row.low_correction, p) : dot[0][p];
    }
    if constexpr (F == Format::f16) {
      int32x4_t high[2][kPairs] = {}, low[2][kPairs] = {};
#pragma GCC unroll 4
      for (int g = 0; g < 4; ++g) {
        uint8x16_t wh[2], wl[2], first, second;
        load_inputs<F>(w, g, first, second);
        pair_up(first, second, wh);
        load_inputs<F>(w + 8 * kVectorBytes, g, first, second);
        pair_up(first, second, wl);
#pragma GCC unroll 4
        for (int p = 0; p < kPairs; ++p) {
          const int8x16_t ah = values(&x.high[g][2 * p]), al = values(&x.low[g][2 * p]);
#pragma GCC unroll 2
          for (int j = 0; j < 2; ++j) {
            high[j][p] = vusmmlaq_s32(high[j][p], wh[j], ah);
            dot[j][p] = vusmmlaq_s32(vusmmlaq_s32(dot[j][p], wh[j], al), wl[j], ah);
            low[j][p] = vusmmlaq_s32(low[j][p], wl[j], al);
          }
        }
      }
#pragma GCC unroll 4
      for (int p = 0; p < kPairs; ++p)
        for (int j = 0; j < 2; ++j) dot[j][p] = joined(high[j][p], dot[j][p], low[j][p]);
    } else {
#pragma GCC unroll 4
      for (int g = 0; g < 4; ++g) {
        uint8x16_t first, second, two[2];
        load_inputs<F>(w, g, first, second);
        pair_up(first, second, two);
#pragma GCC unroll 4
        for (int p = 0; p < kPairs; ++p) {
          const int8x16_t a = values(&x.q[g][2 * p]);
          dot[0][p] = vusmmlaq_s32(dot[0][p], two[0], a);
          dot[1][p] = vusmmlaq_s32(dot[1][p], two[1], a);
        }
      }
    }
  }

  template <int kPairs>
  static TILE_INLINE void add(const RowValues& row, const int32x4_t scales[2], int32x4_t dot[2][kPairs],
                              int32x4_t total[2][kPairs]) {
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p) {
      const int16x8_t mantissa = vreinterpretq_s16_s32(of_rows(row.mantissa, p));
      const int32x4_t left = of_rows(row.left, p), right = of_rows(row.right, p);
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        const int32x4_t c = vreinterpretq_s32_s16(vqrdmulhq_s16(vreinterpretq_s16_s32(scales[j]), mantissa));
        total[j][p] = add_product(total[j][p], dot[j][p], left, c, right);
      }
    }
  }

  template <Format F, int R, class Block>
  static TILE_INLINE void add_block(const uint8_t* w, const int16_t* scales, const RowValues& row, const Block& block,
                                    int32x4_t total[2][R / 2]) {
    int32x4_t dot[2][R / 2];
    dots<F, R / 2>(block, w, row, dot);
    const int32x4_t four = vshll_n_s16(vld1_s16(scales), 16);
    const int32x4_t of_outputs[2] = {vzip1q_s32(four, four), vzip2q_s32(four, four)};
    add<R / 2>(row, of_outputs, dot, total);
  }

  template <Format F, int R, class Block>
  static TILE_INLINE void run(const uint8_t* tiles, int n, const RowValues* rows, const Block* blocks, int count,
                              int32_t* sums) {
    constexpr int kPairs = R / 2;
    int32x4_t total[2][kPairs];
    for (int p = 0; p < kPairs; ++p) {
      const int32x4_t a = vld1q_s32(sums + 2 * p * kTileOutputs), b = vld1q_s32(sums + (2 * p + 1) * kTileOutputs);
      total[0][p] = vzip1q_s32(a, b), total[1][p] = vzip2q_s32(a, b);
    }
    const uint8_t* w = tiles + 4 * n;
    // From a block to the next and to its scales: the scales of a pair are behind both.
    int64_t step = block_bytes(F), scales = 2 * block_bytes(F) - 2 * n;
    for (const Block* end = blocks + count; blocks < end; ++blocks, ++rows) {
      add_block<F, R>(w, as<int16_t>(w + scales), *rows, *blocks, total);
      w += step;
      step = pair_bytes(F) - step;
      scales = 3 * block_bytes(F) + 2 * kTileOutputs - 4 * n - scales;
    }
    for (int p = 0; p < kPairs; ++p) {
      vst1q_s32(sums + 2 * p * kTileOutputs, vuzp1q_s32(total[0][p], total[1][p]));
      vst1q_s32(sums + (2 * p + 1) * kTileOutputs, vuzp2q_s32(total[0][p], total[1][p]));
    }
  }
};

}  // namespace

void neon_i8mm(dsp::Format format, const dsp::TileJob& job) { multiply_tile<Strip>(format, job); }

}  // namespace llada::hexagon::tiles
