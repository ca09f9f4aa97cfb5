// Shared by the loops around products of many rows. Rows go in equal blocks of at most 128. Within a block, two column
// tiles are computed at a time, and a piece of their k at a time for all row tiles. Long rows of many activations go in
// spans of k such that the span's activations fit L2. A result is one running float sum over blocks of 256 k in
// ascending order, whatever the spans are. Everything is local to the including file (see avx512vnni_vector-inl.h).
#pragma once
#include <immintrin.h>

#include "kernels/avx512vnni_tile.h"

namespace llada::kernels::avx512vnni {
namespace {

constexpr int64_t kRowBlock = 128;
constexpr int64_t kColumnPair = 2;              // column tiles that meet the same activations in L1
constexpr int64_t kActivationSpan = 600 << 10;  // bytes of activations that stay in L2

inline TileKernel kernel_of(DType type, int64_t rows, bool second) {
  switch (type) {
    case DType::Q4_0:
      return q4_0_kernel(rows, second);
    case DType::Q4_1:
      return q4_1_kernel(rows, second);
    case DType::Q4_K:
      return q4_k_kernel(rows, second);
    case DType::Q8_0:
      return q8_0_kernel(rows, second);
    case DType::Q6_K:
      return q6_k_kernel(rows, second);
    default:
      return q8_m_kernel(rows, second);
  }
}

// Bytes of the first `chunks` chunks of a packed column tile; chunks is at a block boundary or the end.
inline int64_t packed_offset(DType type, int64_t chunks) { return packed_tile_bytes(type, chunks * kChunk); }

inline int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

inline __mmask16 column_mask(const MatmulArgs& a, int64_t c) {
  const int64_t columns = a.n1 - c;
  return columns >= kColumnTile ? __mmask16{0xffff} : static_cast<__mmask16>((1u << columns) - 1);
}

// The arguments that a stretch of one or two column tiles shares.
struct Span {
  const MatmulArgs& args;
  ActivationLayout layout;
  int64_t r0, r1;      // rows
  int64_t from, to;    // chunks
  int64_t tile_bytes;  // from one packed column tile to the next
  float* sums;         // column tile x (r1 - r0) x 16
};

inline void fill_row_tile(const Span& s, int64_t r, int64_t from, Tile& tile) {
  const auto* base = reinterpret_cast<const uint8_t*>(s.args.activations);
  const int64_t chunks = chunks_of(s.args.k), blocks = blocks_of(s.args.k), height = lesser(kRowTile, s.args.rows - r);
  tile.main = base + (r * chunks + from * height) * ActivationLayout::kMain;
  const int64_t chunk = r * chunks + from * height, block = r * blocks + from / kBlockChunks * height;
  tile.block_values =
      reinterpret_cast<const float*>(base + s.layout.block_values) + block * ActivationLayout::kBlockValues;
  tile.ratios = reinterpret_cast<const int16_t*>(base + s.layout.ratios) + chunk * 2;
  tile.scales = reinterpret_cast<const float*>(base + s.layout.scales) + chunk * 2;
  tile.halves = reinterpret_cast<const int32_t*>(base + s.layout.halves) + chunk * 4;
  tile.wide = reinterpret_cast<const int32_t*>(base + s.layout.wide) + chunk * 2;
  tile.pairs = reinterpret_cast<const int16_t*>(base + s.layout.pairs) + chunk * 2;
}

// Rows [r, r + height) of `columns` column tiles from c on: sums from y, or y from sums. Done row tile by row tile
// between the products, because y's lines, a row apart, meet in few cache sets. All rows at once waited for every
// second one of them.
inline void begin_row_tile(const Span& s, int64_t c, int64_t columns, int64_t r, int64_t height) {
  for (int64_t i = 0; i < columns; ++i)
    for (int64_t row = r; row < r + height; ++row) {
      const float* y = s.args.y + row * s.args.y_stride + c + i * kColumnTile;
      const __m512 start =
          s.from == 0 ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(column_mask(s.args, c + i * kColumnTile), y);
      _mm512_store_ps(s.sums + (i * (s.r1 - s.r0) + row - s.r0) * kColumnTile, start);
    }
}
inline void end_row_tile(const Span& s, int64_t c, int64_t columns, int64_t r, int64_t height) {
  for (int64_t i = 0; i < columns; ++i)
    for (int64_t row = r; row < r + height; ++row)
      _mm512_mask_storeu_ps(s.args.y + row * s.args.y_stride + c + i * kColumnTile,
                            column_mask(s.args, c + i * kColumnTile),
                            _mm512_load_ps(s.sums + (i * (s.r1 - s.r0) + row - s.r0) * kColumnTile));
}

// To be read or written soon: by the time the products between are done the lines are near and this core's to change.
inline void prefetch_row_tile(const Span& s, int64_t c, int64_t columns, int64_t r, int64_t height) {
  for (int64_t i = 0; i < columns; ++i)
    for (int64_t row = r; row < r + height; ++row) {
      const float* y = s.args.y + row * s.args.y_stride + c + i * kColumnTile;
      asm volatile("prefetchw %0" : : "m"(*y));
    }
}

// Prefetches the sums that the row tile at r begins with, or, behind the last one, those of the first row tile of the
// next column tiles. Without this every row tile of a later span waits for them.
inline void prefetch_following(const Span& s, int64_t c, int64_t columns, int64_t r) {
  if (r >= s.r1) {
    r = s.r0;
    c += columns * kColumnTile;
    columns = lesser(columns, (s.args.n1 - c + kColumnTile - 1) / kColumnTile);
  }
  prefetch_row_tile(s, c, columns, r, lesser(kRowTile, s.r1 - r));
}

// All pieces of `columns` column tiles from column c on, Chunks chunks each. multiply_piece(span, c, columns, from, to,
// weights, next, next_bytes) adds chunks [from, to); weights: the first tile's chunk `from`; next: where the first
// tile's following piece begins, of next_bytes.
template <int64_t Chunks, class MultiplyPiece>
void multiply_columns(const Span& s, int64_t c, int64_t columns, const MultiplyPiece& multiply_piece) {
  const MatmulArgs& a = s.args;
  const auto* tile = reinterpret_cast<const uint8_t*>(a.weights) + c / kColumnTile * s.tile_bytes;
  for (int64_t piece = s.from; piece < s.to; piece += Chunks) {
    const int64_t end = lesser(piece + Chunks, s.to);
    const int64_t begin = end < s.to ? end : s.from;  // of the next one
    const int64_t next_bytes = packed_offset(a.type, lesser(begin + Chunks, s.to)) - packed_offset(a.type, begin);
    const uint8_t* next = tile + (end < s.to ? 0 : columns * s.tile_bytes) + packed_offset(a.type, begin);
    multiply_piece(s, c, columns, piece, end, tile + packed_offset(a.type, piece), next, next_bytes);
  }
}

// RowBytes: of activations, per row and chunk.
template <int64_t Chunks, int64_t RowBytes, class MultiplyPiece>
void multiply_many(const MatmulArgs& a, const MultiplyPiece& multiply_piece) {
  alignas(64) float sums[kColumnPair * kRowBlock * kColumnTile];
  const ActivationLayout layout(a.rows, a.k);
  const int64_t chunks = chunks_of(a.k), tile_bytes = packed_tile_bytes(a.type, a.k);
  const int64_t row_tiles = (a.rows + kRowTile - 1) / kRowTile, most = kRowBlock / kRowTile;
  const int64_t row_blocks = (row_tiles + most - 1) / most;
  const int64_t height = (row_tiles + row_blocks - 1) / row_blocks * kRowTile;  // of nearly equal row blocks
  for (int64_t r0 = 0; r0 < a.rows; r0 += height) {
    const int64_t r1 = lesser(r0 + height, a.rows);
    int64_t length = kActivationSpan / ((r1 - r0) * RowBytes) / Chunks * Chunks;
    if (length < Chunks) length = Chunks;
    const int64_t spans = (chunks + length - 1) / length, pieces = (chunks + Chunks - 1) / Chunks;
    length = (pieces + spans - 1) / spans * Chunks;  // nearly equal ones
    for (int64_t from = 0; from < chunks; from += length) {
      const Span span{a, layout, r0, r1, from, lesser(from + length, chunks), tile_bytes, sums};
      for (int64_t c = a.n0; c < a.n1; c += kColumnPair * kColumnTile)
        multiply_columns<Chunks>(span, c, a.n1 - c > kColumnTile ? kColumnPair : 1, multiply_piece);
    }
  }
}

}  // namespace
}  // namespace llada::kernels::avx512vnni
