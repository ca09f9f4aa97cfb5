// The AVX-512 VNNI kernels and the layouts that they share. Only plain constants and declarations: this header is also
// read by files that are compiled for any processor.
//
// Words (k counts the inputs of a product):
//   column tile  16 output columns
//   row tile     8 activation rows; the last one may be smaller
//   chunk        64 consecutive k, that is two groups of 32 called A and B
//   block        256 consecutive k, 4 chunks; the last one may be shorter
//
// Weights, per column tile and chunk: eight steps q = 0..7, each two 64-byte vectors X and Y of unsigned quants. A
// vector holds eight columns x (A, B) x 4 k (k = 4q to 4q + 3 of the group). Lane 2i of X is group A and lane 2i + 1 is
// group B of column kXColumn[i]. Packing two accumulators to 16 bits then puts the pair (A, B) of all columns in
// natural order.
//
// Activations are rounded in groups of 32, each with its own scale max|x| / 127. Per row tile and chunk: the same eight
// steps, each rows x (4 k of A, 4 k of B), so that one 64-bit broadcast meets a whole weight vector. Then rows x (A, B)
// of -8 * sum(q) as int32, which unsigned 4-bit quants need to act as q - 8.
//
// A product adds eight groups of weights as integers before it touches a float. For that a block has one float scale,
// that of its largest group, and each group has a ratio. The ratio is minus its share of the block's scale in 15 bits,
// -32768 for the largest. One vpmulhrsw per row and chunk multiplies the chunk's integer weight scales with the ratios
// of A and B. A share of one keeps them exactly, because -32768 is one in that instruction and +32767 is not; the
// block's scale is negative to match. The rounded products lose at most half of 2^-12 or 2^-13 of the largest one of
// the block.
#pragma once
#include "kernels/kernels.h"

namespace llada::kernels::avx512vnni {

inline constexpr int64_t kColumnTile = 16, kRowTile = 8, kChunk = 64, kBlock = 256;
inline constexpr int64_t kBlockChunks = kBlock / kChunk;
inline constexpr int kXColumn[8] = {0, 1, 4, 5, 8, 9, 12, 13};  // Y: the same + 2

constexpr int64_t chunks_of(int64_t k) { return (k + kChunk - 1) / kChunk; }
constexpr int64_t blocks_of(int64_t k) { return (k + kBlock - 1) / kBlock; }

// Quantized activations: areas, each [row tile][chunk or block][...][row of the tile][...].
struct ActivationLayout {
  static constexpr int64_t kMain = 72;   // per row and chunk: 64 quants, then int32 -8 * sum over A, over B
  static constexpr int64_t kRatios = 4;  // int16 ratio of A, of B
  static constexpr int64_t kScales = 8;  // float scale of A, of B, for weights whose scales stay floats
  static constexpr int64_t kHalves =
      16;  // 2 x int32 -32 * sum of 16 consecutive k of A, of B, + half a unit of 6-bit sums
  static constexpr int64_t kWide = 8;         // int32 -128 * sum over A, over B, + half a unit of 8-bit sums
  static constexpr int64_t kPairs = 4;        // int16 8 * ratio * sum over A, over B, the ratio as a fraction
  static constexpr int64_t kBlockValues = 2;  // per row and block: float -scale of the largest group; int32 steep
  int64_t block_values, ratios, scales, halves, wide, pairs,
      bytes;  // where the areas begin (the main one at 0); the end

  constexpr ActivationLayout(int64_t rows, int64_t k)
      : block_values(aligned(rows * chunks_of(k) * kMain)),
        ratios(block_values + aligned(rows * blocks_of(k) * kBlockValues * 4)),
        scales(ratios + aligned(rows * chunks_of(k) * kRatios)),
        halves(scales + aligned(rows * chunks_of(k) * kScales)),
        wide(halves + aligned(rows * chunks_of(k) * kHalves)),
        pairs(wide + aligned(rows * chunks_of(k) * kWide)),
        bytes(pairs + aligned(rows * chunks_of(k) * kPairs)) {}
  static constexpr int64_t aligned(int64_t n) { return (n + 63) / 64 * 64; }
};

// A row is steep in a block where the quants of one sign in a group sum up to more than this. Sums with 4-bit weights
// that are not centred are 15 times as large and must fit 16 bits.
inline constexpr int kSteep = 2184;

// These shifts bring sums with 8-bit and 6-bit weights to 16 bits. |sum| <= 32 * 128 * 127 = 32512 * 2^4 for a group
// and 16 * 32 * 127 = 32512 * 2^1 for half of one.
inline constexpr int kWideShift = 4, kHalfShift = 1;

// Packed bytes of one column tile.
//   Q4_0: block = 16 float super-scales, then chunks of 512 B of nibbles (X low, Y high) and 64 B of scales.
//   Q4_1: the same, and behind a chunk's scales 64 B of offsets.
//   Q8_0: block = 16 float super-scales, then chunks of 1024 B (w + 128) and 64 B of scales.
//   Q4_K: block = 16 F16 d, 16 F16 dmin, then chunks of 512 B of nibbles, 32 B of scales and 32 B of mins.
//   Q6_K: block = 16 float d, then chunks of 4 x 192 B and 2 x 32 B of scales. 192 B are two steps: X, Y, X in the
//   low six bits of three vectors, the second Y in their upper two, lowest bits first.
//   Q8_M: block = 16 float super-scales, 16 float super-offsets, then chunks of 1024 B (w + 128) and 256 B: 64 B of
//   scales and 64 B of offsets; or, marked as the others mark it, 128 B of float scales and 128 B of float offsets.
int64_t packed_tile_bytes(DType type, int64_t k);

int64_t column_tile(DType type);
int64_t packed_bytes(DType type, int64_t n, int64_t k);
void pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed);
int64_t activation_bytes(int64_t rows, int64_t k);
void quantize_rows(const float* x, int64_t rows, int64_t k, int64_t r0, int64_t r1, TypeSet readers,
                   std::byte* activations);
void pick_rows(const PickArgs& args);
void matmul(const MatmulArgs& args);

// Sets every entry that has nothing to do with weights: rms_norm ... attention, softmax_stats, top2.
void use_row_kernels(KernelTable& table);

// F32, F16 and BF16 weights; entries of the same names without "float_".
int64_t float_column_tile();
int64_t float_packed_bytes(DType type, int64_t n, int64_t k);
void float_pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed);
void float_matmul(const MatmulArgs& args);

void float_attention(const AttentionArgs& args);
// Attention by digests where a row sees many keys, else in floats, and the digests.
void use_digests(KernelTable& table);

}  // namespace llada::kernels::avx512vnni
