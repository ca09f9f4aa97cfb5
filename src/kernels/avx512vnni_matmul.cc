// The loops around the tile kernels. Rows in blocks of 128; within one, column tile by column tile, 1024 k at
// a time for all row tiles, so that a piece of weights (about 9 KiB at 4 bits) is read from memory once and
// stays in L1 while the activations pass by from L2. The next piece is prefetched meanwhile. Long rows of
// many activations go in spans of k such that the span's activations fit L2. A result is one running float
// sum over blocks of 256 k in ascending order, whatever the spans are.
#include <immintrin.h>

#include "kernels/avx512vnni_tile.h"

namespace llada::kernels::avx512vnni {
namespace {

constexpr int64_t kRowBlock = 128;
constexpr int64_t kPiece = 16;                  // chunks of weights that stay in L1
constexpr int64_t kActivationSpan = 600 << 10;  // bytes of activations that stay in L2

TileKernel kernel_of(DType type, int64_t rows) {
  switch (type) {
    case DType::Q4_0:
      return q4_0_kernel(rows);
    case DType::Q4_K:
      return q4_k_kernel(rows);
    case DType::Q8_0:
      return q8_0_kernel(rows);
    case DType::Q6_K:
      return q6_k_kernel(rows);
    default:
      return expanded_kernel(rows);
  }
}

// Bytes of the first `chunks` chunks of a packed column tile; chunks is at a block boundary or the end.
int64_t packed_offset(DType type, int64_t chunks) { return packed_tile_bytes(type, chunks * kChunk); }

int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

__mmask16 column_mask(const MatmulArgs& a, int64_t c) {
  const int64_t columns = a.n1 - c;
  return columns >= kColumnTile ? __mmask16{0xffff} : static_cast<__mmask16>((1u << columns) - 1);
}

// Adds chunks [from, to) of one column tile for rows [r0, r1) to `sums`. weights: of chunk `from`.
void multiply_piece(const MatmulArgs& a, const ActivationLayout& layout, int64_t r0, int64_t r1, int64_t from,
                    int64_t to, const uint8_t* weights, const uint8_t* next, float* sums) {
  const auto* base = reinterpret_cast<const uint8_t*>(a.activations);
  const int64_t chunks = chunks_of(a.k), blocks = blocks_of(a.k);
  for (int64_t r = r0; r < r1; r += kRowTile) {
    const int64_t height = lesser(kRowTile, a.rows - r);  // r is the first row of a tile
    Tile tile;
    tile.weights = weights;
    tile.next = r == r0 ? next : weights;
    tile.main = base + (r * chunks + from * height) * ActivationLayout::kMain;
    tile.scales =
        reinterpret_cast<const float*>(base + layout.scales) + r * blocks + from / kBlockChunks * height;
    tile.halves = reinterpret_cast<const int32_t*>(base + layout.halves) + (r * chunks + from * height) * 4;
    tile.pairs = reinterpret_cast<const int16_t*>(base + layout.pairs) + (r * chunks + from * height) * 2;
    tile.chunks = to - from;
    tile.sums = sums + (r - r0) * kColumnTile;
    kernel_of(a.type, height)(tile);
  }
}

void multiply_span(const MatmulArgs& a, const ActivationLayout& layout, int64_t r0, int64_t r1, int64_t from,
                   int64_t to) {
  alignas(64) float sums[kRowBlock * kColumnTile];
  const bool packed = packs(a.type);
  const int64_t tile_bytes = packed_tile_bytes(a.type, a.k);
  for (int64_t c = a.n0; c < a.n1; c += kColumnTile) {
    const __mmask16 mask = column_mask(a, c);
    for (int64_t r = r0; r < r1; ++r) {
      const __m512 start =
          from == 0 ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, a.y + r * a.y_stride + c);
      _mm512_store_ps(sums + (r - r0) * kColumnTile, start);
    }
    if (packed) {
      const auto* tile = reinterpret_cast<const uint8_t*>(a.weights) + c / kColumnTile * tile_bytes;
      for (int64_t piece = from; piece < to; piece += kPiece) {
        const int64_t end = lesser(piece + kPiece, to);
        const uint8_t* weights = tile + packed_offset(a.type, piece);
        const bool last = end == to;  // then the next column tile's first piece of this span
        const uint8_t* next =
            last ? tile + tile_bytes + packed_offset(a.type, from) : tile + packed_offset(a.type, end);
        multiply_piece(a, layout, r0, r1, piece, end, weights, next, sums);
      }
    } else {
      alignas(64) uint8_t expanded[kBlockChunks * kExpandedChunk];
      for (int64_t piece = from; piece < to; piece += kBlockChunks) {
        expand_block(a.type, a.weights, a.k, c, lesser(kColumnTile, a.n - c), piece / kBlockChunks, expanded);
        multiply_piece(a, layout, r0, r1, piece, lesser(piece + kBlockChunks, to), expanded, expanded, sums);
      }
    }
    for (int64_t r = r0; r < r1; ++r)
      _mm512_mask_storeu_ps(a.y + r * a.y_stride + c, mask, _mm512_load_ps(sums + (r - r0) * kColumnTile));
  }
}

}  // namespace

int64_t column_tile(DType) { return kColumnTile; }

void matmul(const MatmulArgs& a) {
  const ActivationLayout layout(a.rows, a.k);
  for (int64_t r0 = 0; r0 < a.rows; r0 += kRowBlock) {
    const int64_t r1 = lesser(r0 + kRowBlock, a.rows), chunks = chunks_of(a.k);
    int64_t span = kActivationSpan / ((r1 - r0) * ActivationLayout::kMain) / kPiece * kPiece;
    if (span < kPiece) span = kPiece;
    for (int64_t from = 0; from < chunks; from += span)
      multiply_span(a, layout, r0, r1, from, lesser(from + span, chunks));
  }
}

}  // namespace llada::kernels::avx512vnni
