// Data of a group of rows that the kernels of all instruction sets read beside its values, unpacked once for the
// outputs of a tile. Included by files that are compiled for one set: nothing here has a name outside of them.
#pragma once
#include <cstdint>
#include <cstring>

#include "devices/hexagon/host/tiles.h"

namespace llada::hexagon::tiles {
namespace {

#define TILE_INLINE inline __attribute__((always_inline))

using dsp::Format;
using dsp::TileJob;

constexpr int kTileOutputs = 32, kTogether = 16;  // blocks whose rows are unpacked at a time

// A block of R rows. Its product is floor(dot * c / 2^S), c = round(scale * mantissa / 2^15), S = fixed_shift + shift.
// That is also floor((dot << left) * c / 2^15) >> -right without a bit lost, which 64-bit Arm has an instruction for.
struct RowValues {
  alignas(16) int32_t correction[32];  // the start value of a dot product of unsigned weights
  int32_t low_correction[32];          // F16, of the dots of low bytes
  int32_t mantissa[32];                // 15 bits, on 64-bit Arm in the upper half
  int32_t shift[32], left[32], right[32];
};
// Where row r stands in them: as a register has it whose lanes are one row (repeated four times), or two in turn
// (twice), or once.
template <int kRepeated>
constexpr int place_of(int r) {
  return kRepeated == 4 ? 4 * r : kRepeated == 2 ? r / 2 * 4 + r % 2 : r;
}
template <int kRepeated>
TILE_INLINE void put(int32_t* list, int r, int32_t value) {
  for (int i = 0; i < kRepeated; ++i) list[place_of<kRepeated>(r) + i * (4 / kRepeated)] = value;
}
#if defined(__aarch64__)
constexpr int kMantissaAt = 16;
#else
constexpr int kMantissaAt = 0;
#endif

constexpr int kVectorBytes = 128;
constexpr int vectors_of(Format f) { return f == Format::q4 ? 4 : f == Format::q8 ? 8 : 16; }
// The digits that a product loses whatever the rows are.
constexpr int fixed_shift(Format f) { return f == Format::q4 ? 0 : f == Format::q8 ? 4 : 11; }

template <Format F, int R>
struct BlockOf;
template <int R>
struct BlockOf<Format::q4, R> {
  using Type = dsp::BlockQ4<R>;
};
template <int R>
struct BlockOf<Format::q8, R> {
  using Type = dsp::BlockQ8<R>;
};
template <>
struct BlockOf<Format::f16, 4> {
  using Type = dsp::BlockF16;
};

template <class T>
TILE_INLINE const T* as(const void* p) {
  return static_cast<const T*>(p);
}

template <Format F, int R, int kRepeated, class Block>
TILE_INLINE void unpack_rows(const Block& block, RowValues& to) {
  const auto* shifts = as<int32_t>(block.shift);
  for (int r = 0; r < R; ++r) {
    const auto set = [&](int32_t* list, int32_t value) { put<kRepeated>(list, r, value); };
    if constexpr (F == Format::q4) {
      const auto* pair = as<int16_t>(block.pair) + r / 2 * 4 + r % 2;
      set(to.correction, pair[0]);
      set(to.mantissa, pair[2] << kMantissaAt);
    } else {
      set(to.correction, as<int32_t>(block.correction)[r]);
      set(to.mantissa, as<int16_t>(block.mantissa)[r] << kMantissaAt);
    }
    if constexpr (kRepeated == 2) set(to.low_correction, to.correction[place_of<2>(r)]);
    const int32_t over = 15 - fixed_shift(F) - shifts[r];
    set(to.shift, shifts[r]);
    set(to.left, over > 0 ? over : 0);
    set(to.right, over < 0 ? over : 0);  // negative, as a shift to the left
  }
}

// Bytes from a pair of blocks to the next, and the second block's weights and scales behind the first one's.
constexpr int64_t pair_bytes(Format f) { return kVectorBytes * (2 * vectors_of(f) + 1); }
constexpr int64_t block_bytes(Format f) { return kVectorBytes * vectors_of(f); }
// The scales of a pair that begins at w, for the same outputs.
TILE_INLINE const int16_t* scales_at(Format f, const uint8_t* pair, int block, int n) {
  return as<int16_t>(pair + 2 * block_bytes(f)) + block * kTileOutputs + n;
}

// sums[row][output] over all blocks: Strip::run(weights, scales, blocks' rows, values, count, sums) does kOutputs
// outputs of up to kTogether blocks.
template <Format F, int R, class Strip>
__attribute__((noinline)) void multiply_strips(const TileJob& job) {
  using Block = typename BlockOf<F, R>::Type;
  const auto* head = as<dsp::RowGroup>(job.group);
  const auto* blocks = as<Block>(job.group + sizeof(dsp::RowGroup));
  const int count = static_cast<int>((job.inputs / 32 + 1) & ~1u);
  alignas(128) int32_t sums[R][kTileOutputs];
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < kTileOutputs; ++i) sums[r][i] = head->bias[r];
  RowValues rows[kTogether];
  for (int first = 0; first < count; first += kTogether) {
    const int some = count - first < kTogether ? count - first : kTogether;
    for (int b = 0; b < some; ++b) {
      unpack_rows<F, R, Strip::kRepeated>(blocks[first + b], rows[b]);
      if constexpr (F == Format::f16) Strip::unpack_wide(blocks[first + b], rows[b]);
    }
    for (int n = 0; n < kTileOutputs; n += Strip::kOutputs)
      Strip::template run<F, R>(job.tile + kVectorBytes + first / 2 * pair_bytes(F), n, rows, blocks + first, some,
                                &sums[0][n]);
  }
  finish(job, &sums[0][0]);
}

template <class Strip>
TILE_INLINE void multiply_tile(Format format, const TileJob& job) {
  if (format == Format::f16)
    multiply_strips<Format::f16, 4, Strip>(job);
  else if (format == Format::q8 && job.capacity == 8)
    multiply_strips<Format::q8, 8, Strip>(job);
  else if (format == Format::q8)
    multiply_strips<Format::q8, 4, Strip>(job);
  else if (job.capacity == 8)
    multiply_strips<Format::q4, 8, Strip>(job);
  else
    multiply_strips<Format::q4, 4, Strip>(job);
}

}  // namespace
}  // namespace llada::hexagon::tiles
