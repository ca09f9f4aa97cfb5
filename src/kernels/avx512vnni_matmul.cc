// The loops around the tile kernels. Up to 8 rows: one stream of weights. More: rows in equal blocks of at most 128;
// within a block, two column tiles at a time, and 1024 k at a time for all row tiles. So a piece of weights (2 x 9.3
// KiB at 4 bits, 2 x 17.3 at 8) is read from memory once and stays near while the activations pass by from L2. The next
// piece is prefetched meanwhile: without that the times of computing and of memory add up. Many row tiles read 4-bit
// and 6-bit weights that were unpacked once for all of them: Intel's processors mask and shift on the ports that
// multiply. Long rows of many activations go in spans of k such that the span's activations fit L2. A result is one
// running float sum over blocks of 256 k in ascending order, whatever the spans are.
#include <immintrin.h>

#include "kernels/avx512vnni_tile.h"

namespace llada::kernels::avx512vnni {
namespace {

constexpr int64_t kRowBlock = 128;
constexpr int64_t kColumnPair = 2;              // column tiles that meet the same activations in L1
constexpr int64_t kPiece = 16;                  // chunks of weights that pass by before the next ones
constexpr int64_t kActivationSpan = 600 << 10;  // bytes of activations that stay in L2
// Up to so many row tiles are few: they take hardly longer for a piece than memory takes for the next one.
constexpr int64_t kFewTiles = 4;

TileKernel kernel_of(DType type, int64_t rows, bool second) {
  switch (type) {
    case DType::Q4_0:
      return q4_0_kernel(rows, second);
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
int64_t packed_offset(DType type, int64_t chunks) { return packed_tile_bytes(type, chunks * kChunk); }

int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

__mmask16 column_mask(const MatmulArgs& a, int64_t c) {
  const int64_t columns = a.n1 - c;
  return columns >= kColumnTile ? __mmask16{0xffff} : static_cast<__mmask16>((1u << columns) - 1);
}

// What a stretch of one or two column tiles shares.
struct Span {
  const MatmulArgs& args;
  ActivationLayout layout;
  int64_t r0, r1;      // rows
  int64_t from, to;    // chunks
  int64_t tile_bytes;  // from one packed column tile to the next
  float* sums;         // column tile x (r1 - r0) x 16
};

void fill_row_tile(const Span& s, int64_t r, int64_t from, Tile& tile) {
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
// between the products, because y's lines, a row apart, meet in few cache sets: all rows at once waited for every
// second one of them.
void begin_row_tile(const Span& s, int64_t c, int64_t columns, int64_t r, int64_t height) {
  for (int64_t i = 0; i < columns; ++i)
    for (int64_t row = r; row < r + height; ++row) {
      const float* y = s.args.y + row * s.args.y_stride + c + i * kColumnTile;
      const __m512 start =
          s.from == 0 ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(column_mask(s.args, c + i * kColumnTile), y);
      _mm512_store_ps(s.sums + (i * (s.r1 - s.r0) + row - s.r0) * kColumnTile, start);
    }
}
void end_row_tile(const Span& s, int64_t c, int64_t columns, int64_t r, int64_t height) {
  for (int64_t i = 0; i < columns; ++i)
    for (int64_t row = r; row < r + height; ++row)
      _mm512_mask_storeu_ps(s.args.y + row * s.args.y_stride + c + i * kColumnTile,
                            column_mask(s.args, c + i * kColumnTile),
                            _mm512_load_ps(s.sums + (i * (s.r1 - s.r0) + row - s.r0) * kColumnTile));
}

// To be read or written soon: by the time the products between are done the lines are near and this core's to change.
void prefetch_row_tile(const Span& s, int64_t c, int64_t columns, int64_t r, int64_t height) {
  for (int64_t i = 0; i < columns; ++i)
    for (int64_t row = r; row < r + height; ++row) {
      const float* y = s.args.y + row * s.args.y_stride + c + i * kColumnTile;
      asm volatile("prefetchw %0" : : "m"(*y));
    }
}

// The sums that the row tile at r begins with, or, behind the last one, the first row tile of the next column tiles:
// without this every row tile of a later span waits for them.
void prefetch_following(const Span& s, int64_t c, int64_t columns, int64_t r) {
  if (r >= s.r1) {
    r = s.r0;
    c += columns * kColumnTile;
    columns = lesser(columns, (s.args.n1 - c + kColumnTile - 1) / kColumnTile);
  }
  prefetch_row_tile(s, c, columns, r, lesser(kRowTile, s.r1 - r));
}

// Adds chunks [from, to) of `columns` (1 or 2) column tiles, from column c on. weights: the first tile's chunk `from`;
// next: where the first tile's following piece begins, of next_bytes. The following weights are prefetched evenly over
// all row tiles (in a burst they would wait for memory) by all calls, or with many row tiles by those for the first
// column tile; those for the second then prefetch the next row tile.
void multiply_piece(const Span& s, int64_t c, int64_t columns, int64_t from, int64_t to, const uint8_t* weights,
                    const uint8_t* next, int64_t next_bytes) {
  const int64_t chunks = to - from, row_tiles = (s.r1 - s.r0 + kRowTile - 1) / kRowTile;
  const DType type = s.args.type;
  const bool few = row_tiles <= kFewTiles;
  const bool ready = !few && (type == DType::Q4_0 || type == DType::Q4_K || type == DType::Q6_K);
  alignas(64) uint8_t unpacked[kColumnPair * unpacked_bytes(kPiece)];
  for (int64_t j = 0; ready && j < columns; ++j)
    (type == DType::Q6_K ? unpack_q6_k : unpack_nibbles)(weights + j * s.tile_bytes, chunks,
                                                         unpacked + j * unpacked_bytes(kPiece));
  int64_t fetched = 0;  // of the following pieces of both column tiles, one after the other
  for (int64_t i = 0; i < row_tiles; ++i) {
    const int64_t r = s.r0 + i * kRowTile;
    const int64_t height = lesser(kRowTile, s.args.rows - r);
    const TileKernel kernel = ready ? unpacked_kernel(type, height) : kernel_of(type, height, few || height < kRowTile);
    const int64_t share = (few ? 1 : columns) * next_bytes / row_tiles;
    Tile tile;
    fill_row_tile(s, r, from, tile);
    tile.chunks = chunks;
    tile.skip = 0;
    if (from == s.from) {
      begin_row_tile(s, c, columns, r, height);
      if (s.from > 0) prefetch_following(s, c, columns, r + kRowTile);
    }
    if (to == s.to) prefetch_row_tile(s, c, columns, r, height);
    for (int64_t j = 0; j < columns; ++j) {
      tile.weights = ready ? unpacked + j * unpacked_bytes(kPiece) : weights + j * s.tile_bytes;
      tile.sums = s.sums + (j * (s.r1 - s.r0) + r - s.r0) * kColumnTile;
      if (few || j == 0) {
        tile.next = fetched < next_bytes ? next + fetched : next + s.tile_bytes + (fetched - next_bytes);
        tile.step = share / chunks;
        fetched += share;
      } else {
        const bool more = i + 1 < row_tiles;
        Tile after;
        fill_row_tile(s, more ? r + kRowTile : s.r0, more ? from : to, after);
        tile.next = after.main;
        tile.step = kPrefetched;
      }
      kernel(tile);
    }
    if (to == s.to) end_row_tile(s, c, columns, r, height);
  }
}

// One row tile: every weight is used once, so column tile after column tile in one stream per thread, prefetched at a
// fixed distance. (Two column tiles side by side, as below, share the activations but made two streams.)
void stream(const MatmulArgs& a) {
  constexpr int64_t kAhead = 8192;  // bytes; half of it and less lost up to a fifth at 8 rows, twice it a little at 1
  alignas(64) float sums[kRowTile * kColumnTile];
  const int64_t chunks = chunks_of(a.k), tile_bytes = packed_tile_bytes(a.type, a.k);
  const Span span{a, ActivationLayout(a.rows, a.k), 0, a.rows, 0, chunks, tile_bytes, sums};
  const TileKernel kernel = kernel_of(a.type, a.rows, a.rows == kRowTile);
  Tile tile;
  fill_row_tile(span, 0, 0, tile);
  tile.chunks = chunks;
  tile.sums = sums;
  tile.step = packed_offset(a.type, kBlockChunks) / kBlockChunks / 64 * 64;
  tile.skip = packed_offset(a.type, kBlockChunks) - kBlockChunks * tile.step;
  for (int64_t c = a.n0; c < a.n1; c += kColumnTile) {
    for (int64_t r = 0; r < a.rows; ++r) _mm512_store_ps(sums + r * kColumnTile, _mm512_setzero_ps());
    tile.weights = reinterpret_cast<const uint8_t*>(a.weights) + c / kColumnTile * tile_bytes;
    tile.next = tile.weights + kAhead;
    kernel(tile);
    for (int64_t r = 0; r < a.rows; ++r)
      _mm512_mask_storeu_ps(a.y + r * a.y_stride + c, column_mask(a, c), _mm512_load_ps(sums + r * kColumnTile));
  }
}

void multiply_columns(const Span& s, int64_t c, int64_t columns) {
  const MatmulArgs& a = s.args;
  const auto* tile = reinterpret_cast<const uint8_t*>(a.weights) + c / kColumnTile * s.tile_bytes;
  for (int64_t piece = s.from; piece < s.to; piece += kPiece) {
    const int64_t end = lesser(piece + kPiece, s.to);
    const int64_t begin = end < s.to ? end : s.from;  // of the next one
    const int64_t next_bytes = packed_offset(a.type, lesser(begin + kPiece, s.to)) - packed_offset(a.type, begin);
    const uint8_t* next = tile + (end < s.to ? 0 : columns * s.tile_bytes) + packed_offset(a.type, begin);
    multiply_piece(s, c, columns, piece, end, tile + packed_offset(a.type, piece), next, next_bytes);
  }
}

}  // namespace

int64_t column_tile(DType) { return kColumnTile; }

void matmul(const MatmulArgs& a) {
  if (a.rows <= kRowTile) {
    stream(a);
    return;
  }
  alignas(64) float sums[kColumnPair * kRowBlock * kColumnTile];
  const ActivationLayout layout(a.rows, a.k);
  const int64_t chunks = chunks_of(a.k), tile_bytes = packed_tile_bytes(a.type, a.k);
  const int64_t row_tiles = (a.rows + kRowTile - 1) / kRowTile, most = kRowBlock / kRowTile;
  const int64_t row_blocks = (row_tiles + most - 1) / most;
  const int64_t height = (row_tiles + row_blocks - 1) / row_blocks * kRowTile;  // of nearly equal row blocks
  for (int64_t r0 = 0; r0 < a.rows; r0 += height) {
    const int64_t r1 = lesser(r0 + height, a.rows);
    int64_t length = kActivationSpan / ((r1 - r0) * ActivationLayout::kMain) / kPiece * kPiece;
    if (length < kPiece) length = kPiece;
    const int64_t spans = (chunks + length - 1) / length, pieces = (chunks + kPiece - 1) / kPiece;
    length = (pieces + spans - 1) / spans * kPiece;  // nearly equal ones
    for (int64_t from = 0; from < chunks; from += length) {
      const Span span{a, layout, r0, r1, from, lesser(from + length, chunks), tile_bytes, sums};
      for (int64_t c = a.n0; c < a.n1; c += kColumnPair * kColumnTile)
        multiply_columns(span, c, a.n1 - c > kColumnTile ? kColumnPair : 1);
    }
  }
}

}  // namespace llada::kernels::avx512vnni
