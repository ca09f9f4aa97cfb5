// Products of many rows by AMX's tiles, beside the kernels of avx512vnni.h, whose packed weights and activations they
// read and whose results they have bit for bit.
//
// A group of 32 has a scale of its own, so its sums must leave the tiles, 16 x 16 of them by one tilestored. That takes
// the processor's front end as long as sixteen rows take, however many there are. So one product fills a tile: of one
// row tile (8 rows), one column tile and one chunk (a pair of groups, A and B), with the activations as
//
//   row r      32 quants of A, 32 zeros
//   row 8 + r  32 zeros, 32 quants of B
//
// against 64 inputs of 16 columns. Half the multiplications are by zero; tiles of 32 inputs would take as long. Those
// rows are an area behind the activations of avx512vnni.h, 1024 bytes per row tile and chunk; rows that are not there
// may hold anything. The area is there from kLeastRows rows on.
#pragma once
#include "kernels/avx512vnni.h"

namespace llada::kernels::amx {

inline constexpr int64_t kTileBytes = 1024;
// Fewer rows are multiplied faster without tiles; bytes, whose sums need rounding, need more of them.
inline constexpr int64_t kLeastRows = 9, kLeastByteRows = 24;

// Whether this process may use tiles. Linux is asked the first time. From then on the signal frames of threads with
// tiles are larger by the 8 KiB of their state, and alternate signal stacks must be. Without its permission products
// are those of avx512vnni.h.
bool allowed();

int64_t activation_bytes(int64_t rows, int64_t k);
void quantize_rows(const float* x, int64_t rows, int64_t k, int64_t r0, int64_t r1, TypeSet readers,
                   std::byte* activations);
void pick_rows(const PickArgs& args);
// For quantized types. Fewer rows, and types without kernels here, go to avx512vnni::matmul().
void matmul(const MatmulArgs& args);

}  // namespace llada::kernels::amx
