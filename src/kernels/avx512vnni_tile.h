// What a product kernel gets: one column tile and one row tile over a stretch of chunks that begins at a
// block.
#pragma once
#include <cstdint>

#include "kernels/avx512vnni.h"

namespace llada::kernels::avx512vnni {

inline constexpr int64_t kPrefetched = 576;

struct Tile {
  const uint8_t* weights;  // packed
  // What to prefetch meanwhile, from `next`, which moves on by `step` bytes per chunk and `skip` bytes per block: 9
  // lines per chunk, all lines of a chunk of weights where step > kPrefetched, and one line per block behind its
  // chunks.
  const uint8_t* next;
  int64_t step, skip;
  const uint8_t* main;  // areas of the activations
  const float* block_values;
  const int16_t* ratios;
  const float* scales;
  const int32_t* halves;
  const int32_t* wide;
  const int16_t* pairs;
  int64_t chunks;
  float* sums;  // rows x 16, added to
};
using TileKernel = void (*)(const Tile& tile);

// The kernel of a packed type for 1..8 rows.
TileKernel q4_0_kernel(int64_t rows);
TileKernel q4_k_kernel(int64_t rows);
TileKernel q8_0_kernel(int64_t rows);
TileKernel q6_k_kernel(int64_t rows);

// Weights of the types that are used as stored, expanded by expand_block: chunks of 1024 B of quants and 4 x
// 64 B of floats: scale of X, scale of Y, offset of X, offset of Y (w = scale * q + offset; the offsets are
// divided by -8).
inline constexpr int64_t kExpandedChunk = 1024 + 256;
TileKernel expanded_kernel(int64_t rows);
// Columns [c0, c0 + columns), block b of the stored matrix; missing columns become zero.
void expand_block(DType type, const std::byte* stored, int64_t k, int64_t c0, int64_t columns, int64_t b, uint8_t* out);

}  // namespace llada::kernels::avx512vnni
