// The loops around the tile kernels. Up to 8 rows: one stream of weights. More: avx512vnni_loops-inl.h, 1024 k at a
// time. So a piece of weights (2 x 9.3 KiB in Q4_0, 2 x 17.3 in Q8_0) is read from memory once and stays near while the
// activations pass by from L2. The next piece is prefetched meanwhile: without that the times of computing and of
// memory add up. Many row tiles read 4-bit and 6-bit weights that were unpacked once for all of them: Intel's
// processors mask and shift on the ports that multiply.
#include "kernels/avx512vnni_loops-inl.h"

namespace llada::kernels::avx512vnni {
namespace {

constexpr int64_t kPiece = 16;  // chunks of weights that pass by before the next ones
// Up to so many row tiles are few: they take hardly longer for a piece than memory takes for the next one.
constexpr int64_t kFewTiles = 4;

// Adds a piece. The following weights are prefetched evenly over all row tiles (in a burst they would wait for memory)
// by all calls, or with many row tiles by those for the first column tile; those for the second then prefetch the next
// row tile.
void multiply_piece(const Span& s, int64_t c, int64_t columns, int64_t from, int64_t to, const uint8_t* weights,
                    const uint8_t* next, int64_t next_bytes) {
  const int64_t chunks = to - from, row_tiles = (s.r1 - s.r0 + kRowTile - 1) / kRowTile;
  const DType type = s.args.type;
  const bool few = row_tiles <= kFewTiles;
  const bool ready = !few && unpacks(type);
  alignas(64) uint8_t unpacked[kColumnPair * unpacked_bytes(kPiece)];
  for (int64_t j = 0; ready && j < columns; ++j)
    unpack(type, weights + j * s.tile_bytes, chunks, unpacked + j * unpacked_bytes(kPiece));
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

}  // namespace

int64_t column_tile(DType) { return kColumnTile; }

void matmul(const MatmulArgs& a) {
  if (a.rows <= kRowTile)
    stream(a);
  else
    multiply_many<kPiece, ActivationLayout::kMain>(a, multiply_piece);
}

}  // namespace llada::kernels::avx512vnni
