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
TileKernel q8_m_kernel(int64_t rows);

}  // namespace llada::kernels::avx512vnni
