// The kernels of the x86 sets: a strip is a register of outputs. The file that includes this one has defined `Lanes`,
// the register and its instructions.
#pragma once
#include "devices/hexagon/host/tile_rows-inl.h"

namespace llada::hexagon::tiles {
namespace {

struct Strip {
  using I = Lanes::I;
  static constexpr int kOutputs = Lanes::kOutputs, kRepeated = 1;

  static TILE_INLINE void unpack_wide(const dsp::BlockF16&, RowValues&) {}

  // sum + floor(dot * c / 2^fixed) >> shift. The dot in two parts, of which each has 16 bits.
  template <Format F>
  static TILE_INLINE I scaled(I sum, I dot, I c, int32_t shift) {
    I product;
    if constexpr (F == Format::q4) {
      product = Lanes::low_products(dot, c);
    } else {
      constexpr int kBits = fixed_shift(F);
      const I rest = Lanes::both(dot, Lanes::splat((1 << kBits) - 1));
      product = Lanes::sum(Lanes::low_products(Lanes::right(dot, kBits), c),
                           Lanes::right(Lanes::low_products(rest, c), kBits));
    }
    return Lanes::sum(sum, Lanes::right(product, shift));
  }

  template <Format F, int R, class Block>
  static TILE_INLINE void run(const uint8_t* tiles, int n, const RowValues* rows, const Block* blocks, int count,
                              int32_t* sums) {
    I total[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) total[r] = Lanes::load(sums + r * kTileOutputs);
    for (int b = 0; b < count; ++b) {
      const uint8_t* pair = tiles + b / 2 * pair_bytes(F);
      const uint8_t* w = pair + b % 2 * block_bytes(F) + 4 * n;
      const RowValues& row = rows[b];
      const Block& x = blocks[b];
      I dot[R];
      if constexpr (F == Format::f16) {
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          I high = Lanes::splat(0), middle = Lanes::splat(row.correction[r]), low = high;
#pragma GCC unroll 8
          for (int g = 0; g < 8; ++g) {
            const I wh = Lanes::load(w + g * kVectorBytes), wl = Lanes::load(w + (8 + g) * kVectorBytes);
            const int32_t ah = as<int32_t>(&x.high[g / 2][r])[g % 2], al = as<int32_t>(&x.low[g / 2][r])[g % 2];
            high = Lanes::template dot<false>(high, wh, ah);
            middle = Lanes::template dot<false>(Lanes::template dot<false>(middle, wh, al), wl, ah);
            low = Lanes::template dot<false>(low, wl, al);
          }
          dot[r] = Lanes::sum(Lanes::sum(middle, Lanes::left(high, 8)), Lanes::right(low, 8));
        }
      } else {
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) dot[r] = Lanes::splat(row.correction[r]);
#pragma GCC unroll 4
        for (int g = 0; g < 4; ++g) {
          I first, second;  // four inputs of each output
          if constexpr (F == Format::q4) {
            const I both = Lanes::load(w + g * kVectorBytes);
            first = Lanes::low_nibbles(both), second = Lanes::high_nibbles(both);
          } else {
            first = Lanes::load(w + 2 * g * kVectorBytes), second = Lanes::load(w + (2 * g + 1) * kVectorBytes);
          }
#pragma GCC unroll 8
          for (int r = 0; r < R; ++r) {
            const auto* values = as<int32_t>(&x.q[g][r]);
            dot[r] = Lanes::template dot<F == Format::q4>(dot[r], first, values[0]);
            dot[r] = Lanes::template dot<F == Format::q4>(dot[r], second, values[1]);
          }
        }
      }
      const auto scales = Lanes::scales(scales_at(F, pair, b % 2, n));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        total[r] = scaled<F>(total[r], dot[r], Lanes::rounded(scales, row.mantissa[r]), row.shift[r]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) Lanes::store(sums + r * kTileOutputs, total[r]);
  }
};

}  // namespace
}  // namespace llada::hexagon::tiles
