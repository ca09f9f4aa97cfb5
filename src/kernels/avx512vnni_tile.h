// The arguments of a product kernel: one column tile and one row tile over a stretch of chunks that begins at a block.
#pragma once
#include <cstdint>

#include "kernels/avx512vnni.h"

namespace llada::kernels::avx512vnni {

inline constexpr int64_t kPrefetched = 576;

// Where prefetched lines go.
//   past    beside the caches: weights of one row tile of few rows pass once, and should not evict data that is read
//           again soon (activations, the rows of experts)
//   first   the first level: the next row tile's activations, and weights that many row tiles read
//   second  the second level: a piece of weights and the next one are more than the first one holds
enum class Fetch : uint8_t { past, first, second };

struct Tile {
  const uint8_t* weights;  // packed
  // The address to prefetch meanwhile. It moves on by `step` bytes per chunk and `skip` bytes per block. A chunk
  // prefetches 9 lines, or all lines of a chunk of weights where step > kPrefetched. A block prefetches one line behind
  // its chunks.
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

// The kernel of a packed type for 1..8 rows. second: prefetches to the second level; otherwise 8 rows do to the first,
// fewer past the caches.
TileKernel q4_0_kernel(int64_t rows, bool second);
TileKernel q4_1_kernel(int64_t rows, bool second);
TileKernel q4_k_kernel(int64_t rows, bool second);
TileKernel q8_0_kernel(int64_t rows, bool second);
TileKernel q6_k_kernel(int64_t rows, bool second);
TileKernel q8_m_kernel(int64_t rows, bool second);
template <int R, bool Second>
inline constexpr Fetch kFetch = Second         ? Fetch::second
                                : R < kRowTile ? Fetch::past
                                               : Fetch::first;

// For many row tiles a piece of weights of fewer than 8 bits is unpacked once for all of them. Per block 64 bytes of
// scales. Then for 6 bits and each half of a chunk four steps of X and Y and 64 bytes of scales times 32. For 4 bits
// the eight steps of a chunk and the 64 or 128 bytes that follow its nibbles.
constexpr bool unpacks(DType type) {
  return type == DType::Q4_0 || type == DType::Q4_1 || type == DType::Q4_K || type == DType::Q6_K;
}
inline constexpr int64_t kUnpackedChunk = 1152;  // at most
constexpr int64_t unpacked_bytes(int64_t chunks) { return blocks_of(chunks * kChunk) * 64 + chunks * kUnpackedChunk; }
void unpack(DType type, const uint8_t* weights, int64_t chunks, uint8_t* unpacked);
void unpack_q6_k(const uint8_t* weights, int64_t chunks, uint8_t* unpacked);
TileKernel unpacked_kernel(DType type, int64_t rows);
TileKernel unpacked_q6_k_kernel(int64_t rows);

}  // namespace llada::kernels::avx512vnni
