// Products by tiles. Unit has the tile instructions: amx_matmul.cc gives the processor's, the tests an emulation.
//
// Weights are unpacked to tiles of signed bytes once per piece and pair of column tiles, for all row tiles. Each step
// multiplies one column tile's chunk, stores the sums of the step two before, and adds those of the step four before to
// the totals. The instructions of the three are independent and fill each other's gaps. That goes on from one row tile
// to the next. Sums of a chunk are rounded, paired and scaled as in avx512vnni_int16.cc and avx512vnni_int8.cc.
#pragma once
#include <immintrin.h>

#include "kernels/amx.h"
#include "kernels/avx512vnni_loops-inl.h"
#include "kernels/avx512vnni_vector-inl.h"

namespace llada::kernels::LLADA_AMX_NAMESPACE {
namespace {

using namespace avx512vnni;
using amx::kLeastByteRows, amx::kLeastRows, amx::kTileBytes;

constexpr int64_t kPiece = 8;   // chunks; two column tiles of it and the tiles of a row tile fit L1
constexpr int64_t kSums = 256;  // int32 of a tile

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfig kConfig;
alignas(64) constexpr int32_t kHalfUnit[16] = {8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8};
static_assert(kHalfUnit[0] == 1 << kWideShift >> 1);

// How a packed chunk lies (avx512vnni.h).
template <DType Type>
struct Form {
  static constexpr bool kNibbles = Type == DType::Q4_0 || Type == DType::Q4_1 || Type == DType::Q4_K;
  static constexpr bool kWideSums = !kNibbles, kOffsets = Type == DType::Q8_M;
  static constexpr int64_t kHeader = kOffsets ? 128 : 64, kQuants = kNibbles ? 512 : 1024;
  static constexpr int64_t kChunk = kQuants + (kOffsets ? 256 : Type == DType::Q4_1 ? 128 : 64);
};

// A chunk as a tile: rows 0..7 four inputs of A each, for 16 columns in order, rows 8..15 those of B.
template <DType Type>
void unpack(const uint8_t* w, int64_t chunks, uint8_t* out) {
  using F = Form<Type>;
  for (int64_t c = 0; c < chunks; ++c, w += F::kChunk, out += kTileBytes) {
    if (c % kBlockChunks == 0) w += F::kHeader;
#pragma GCC unroll 8
    for (int q = 0; q < 8; ++q) {
      __m512i x, y;
      if constexpr (
          F::kNibbles) {  // the low or the high one of each byte, less 8 (bits 3 to 7: not bit 3), or as it is
        constexpr int kSigned = Type == DType::Q4_K ? 0 : 0xf8;
        constexpr long long kLow = kSigned != 0 ? 0x0102040808080808 : 0x0102040800000000;
        const __m512i both = _mm512_load_si512(w + 64 * q);
        x = _mm512_gf2p8affine_epi64_epi8(both, _mm512_set1_epi64(kLow), kSigned);
        y = _mm512_gf2p8affine_epi64_epi8(both, _mm512_set1_epi64(kLow << 4), kSigned);
      } else {
        const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
        x = _mm512_xor_si512(_mm512_load_si512(w + 128 * q), sign);
        y = _mm512_xor_si512(_mm512_load_si512(w + 128 * q + 64), sign);
      }
      const __m512 fx = _mm512_castsi512_ps(x), fy = _mm512_castsi512_ps(y);
      _mm512_store_ps(out + 64 * q, _mm512_shuffle_ps(fx, fy, 0x88));
      _mm512_store_ps(out + kTileBytes / 2 + 64 * q, _mm512_shuffle_ps(fx, fy, 0xdd));
    }
  }
}

// One row tile and two column tiles over a piece.
struct Job {
  Tile rows;                 // its activations and the prefetch target; weights and sums are below
  const uint8_t* tiles;      // of the row tile
  const uint8_t* following;  // those of the next row tile, whose first steps are begun; null: none
  bool begun;                // by the row tile before
  const uint8_t* unpacked[2];
  const uint8_t* weights[2];  // packed
  float* sums[2];
  int32_t* stored;  // 4 x kSums, kept between row tiles
};

// The totals of a row tile and a column tile within a block.
template <DType Type, int R>
struct Totals {
  using F = Form<Type>;
  __m512i total[R];

  __attribute__((always_inline)) void clear() {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) total[r] = _mm512_setzero_si512();
  }

  // tile: R rows of sums of A, from row 8 on of B. A row's 16-bit pairs (A, B) are cut out of both. w: the packed
  // chunk.
  __attribute__((always_inline)) void add(const int32_t* tile, const uint8_t* w, const int16_t* ratios) {
    const __m512i cut = _mm512_set1_epi64(F::kWideSums ? 0x2c242c240c040c04 : 0x2820000008000000);  // first bits
    constexpr __mmask64 kB = 0xcccccccccccccccc;
    const __m512i scale = Type == DType::Q4_K ? _mm512_slli_epi16(_mm512_cvtepu8_epi16(load256(w + F::kQuants)), 6)
                                              : _mm512_load_si512(w + F::kQuants);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      __m512i pair = _mm512_load_si512(tile + 16 * r);
      if constexpr (F::kWideSums) pair = _mm512_multishift_epi64_epi8(cut, pair);
      pair = _mm512_mask_multishift_epi64_epi8(pair, kB, cut, _mm512_load_si512(tile + kSums / 2 + 16 * r));
      add_pairs(total[r], pair, scaled_by(scale, ratios + 2 * r));
    }
  }

  // Behind a block of `chunks` chunks. header: the block's; main, ratios, pairs: the row tile's from the block on.
  __attribute__((always_inline)) void end(const uint8_t* header, int64_t chunks, const uint8_t* main,
                                          const int16_t* ratios, const int16_t* pairs, const float* values,
                                          float* sums) {
    if constexpr (Type == DType::Q4_K) {
      const __m512 d = _mm512_mul_ps(_mm512_cvtph_ps(load256(header)), _mm512_set1_ps(1.0f / 64));
      const __m512 dmin = _mm512_mul_ps(_mm512_cvtph_ps(load256(header + 32)), _mm512_set1_ps(1.0f / 8));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        __m512i offset = _mm512_setzero_si512();
        for (int64_t c = 0; c < kBlockChunks; ++c)
          add_pairs(offset, broadcast32(pairs + 2 * (c * R + r)),
                    _mm512_cvtepu8_epi16(load256(header + F::kHeader + c * F::kChunk + F::kQuants + 32)));
        __m512 sum = _mm512_mul_ps(_mm512_cvtepi32_ps(total[r]), d);
        sum = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(offset), dmin, sum);
        _mm512_storeu_ps(sums + 16 * r,
                         _mm512_fmadd_ps(sum, _mm512_set1_ps(values[r]), _mm512_loadu_ps(sums + 16 * r)));
      }
    } else {
      if constexpr (Type == DType::Q4_1) {
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
          for (int64_t c = 0; c < chunks; ++c)
            add_pairs(total[r], _mm512_load_si512(header + F::kHeader + c * F::kChunk + F::kQuants + 64),
                      broadcast32(pairs + 2 * (c * R + r)));
      }
      __m512 super = _mm512_load_ps(header);
      if constexpr (F::kWideSums) super = _mm512_mul_ps(super, _mm512_set1_ps(1 << kWideShift));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) add_scaled(sums + 16 * r, total[r], super, values[r]);
    }
    if constexpr (F::kOffsets) {
      const __m512 super = _mm512_mul_ps(_mm512_load_ps(header + 64), _mm512_set1_ps(-1.0f / 8));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        __m512i offsets = _mm512_setzero_si512();
        for (int64_t c = 0; c < chunks; ++c) {
          const __m512i both = broadcast64(main + (c * ActivationLayout::kMain + 64) * R + 8 * r);
          const __m512i offset = _mm512_load_si512(header + F::kHeader + c * F::kChunk + F::kQuants + 64);
          add_pairs(offsets, _mm512_packs_epi32(both, both), scaled_by(offset, ratios + 2 * (c * R + r)));
        }
        add_scaled(sums + 16 * r, offsets, super, values[r]);
      }
    }
    clear();
  }
};

// Begins a step: the product of the activations in tile A and a column tile's chunk, in tile T.
template <DType Type, int T, int A>
inline __attribute__((always_inline)) void multiply_step(const uint8_t* unpacked) {
  constexpr int kWeights = 6 + T % 2;
  Unit::load<kWeights>(unpacked);
  if constexpr (Form<Type>::kWideSums)
    Unit::load_same<T>(kHalfUnit);
  else
    Unit::zero<T>();
  Unit::multiply<T, A, kWeights>();
}

template <DType Type, int R>
void multiply_row_tile(const Job& job) {
  using F = Form<Type>;
  const Tile& t = job.rows;
  const int64_t n = t.chunks, other = job.unpacked[1] - job.unpacked[0];
  int32_t* const stored = job.stored;
  Totals<Type, R> first, second;
  first.clear(), second.clear();
  int64_t at = F::kHeader;  // of the chunk that is added, in the packed piece
  const uint8_t* main = t.main;
  const int16_t* ratios = t.ratios;
  const int16_t* pairs = t.pairs;
  const float* values = t.block_values;
  const uint8_t* next = t.next;
  const auto end_chunk = [&](int64_t c) __attribute__((always_inline)) {
    for (int64_t line = 0; line < t.step; line += 64, next += 64) prefetch<Fetch::second>(next);
    at += F::kChunk, ratios += 2 * R;
    if (c % kBlockChunks != kBlockChunks - 1 && c + 1 != n) return;
    const int64_t chunks = c % kBlockChunks + 1, header = at - chunks * F::kChunk - F::kHeader;
    const int16_t* block_ratios = ratios - 2 * R * chunks;
    first.end(job.weights[0] + header, chunks, main, block_ratios, pairs, values, job.sums[0]);
    second.end(job.weights[1] + header, chunks, main, block_ratios, pairs, values, job.sums[1]);
    at += F::kHeader;
    main += chunks * ActivationLayout::kMain * R;
    pairs += 2 * R * chunks;
    values += ActivationLayout::kBlockValues * R;
  };
  const uint8_t* a = job.tiles;  // of the chunk that is multiplied next, or null
  const uint8_t* b = job.unpacked[0];
  if (!job.begun) {
    Unit::load<4>(a);
    multiply_step<Type, 0, 4>(b);
    multiply_step<Type, 1, 4>(b + other);
    Unit::store<0>(stored);
    Unit::store<1>(stored + kSums);
    if (n > 1) {
      Unit::load<5>(a + kTileBytes);
      multiply_step<Type, 2, 5>(b + kTileBytes);
      multiply_step<Type, 3, 5>(b + kTileBytes + other);
    }
  }
  a = n > 2 ? a + 2 * kTileBytes : job.following;
  b = n > 2 ? b + 2 * kTileBytes : job.unpacked[0];
  const auto step_on = [&](int64_t c) __attribute__((always_inline)) {  // c: two before the one that was begun
    a = c + 3 == n ? job.following : a + kTileBytes;
    b = c + 3 == n ? job.unpacked[0] : b + kTileBytes;
  };
  for (int64_t c = 0; c < n; c += 2) {
    const bool even = a != nullptr;
    if (even) {
      Unit::load<4>(a);
      multiply_step<Type, 0, 4>(b);
    }
    if (c + 1 < n) Unit::store<2>(stored + 2 * kSums);
    first.add(stored, job.weights[0] + at, ratios);
    if (even) multiply_step<Type, 1, 4>(b + other);
    if (c + 1 < n) Unit::store<3>(stored + 3 * kSums);
    second.add(stored + kSums, job.weights[1] + at, ratios);
    end_chunk(c);
    if (c + 1 == n) break;
    if (even) step_on(c);
    const bool odd = a != nullptr;
    if (odd) {
      Unit::load<5>(a);
      multiply_step<Type, 2, 5>(b);
    }
    if (even) Unit::store<0>(stored);
    first.add(stored + 2 * kSums, job.weights[0] + at, ratios);
    if (odd) multiply_step<Type, 3, 5>(b + other);
    if (even) Unit::store<1>(stored + kSums);
    second.add(stored + 3 * kSums, job.weights[1] + at, ratios);
    end_chunk(c + 1);
    if (odd) step_on(c + 1);
  }
}

using RowTileKernel = void (*)(const Job& job);
template <DType Type>
constexpr RowTileKernel kRowTiles[] = {
    multiply_row_tile<Type, 1>, multiply_row_tile<Type, 2>, multiply_row_tile<Type, 3>, multiply_row_tile<Type, 4>,
    multiply_row_tile<Type, 5>, multiply_row_tile<Type, 6>, multiply_row_tile<Type, 7>, multiply_row_tile<Type, 8>};

// Blocks whose numbers are kept as floats are marked by a negative one; rows can be steep with Q4_K. Both are rare.
template <DType Type>
bool marked(const uint8_t* w, int64_t chunks) {
  if constexpr (Type == DType::Q4_K) return false;
  int32_t marks = 0;
  for (int64_t c = 0; c < chunks; c += kBlockChunks, w += Form<Type>::kHeader + kBlockChunks * Form<Type>::kChunk) {
    int32_t mark;
    __builtin_memcpy(&mark, w, 4);
    marks |= mark;
  }
  return marks < 0;
}
bool steep(const Tile& tile, int64_t height) {
  int32_t any = 0;
  for (int64_t b = 0; b < blocks_of(tile.chunks * kChunk); ++b)
    for (int64_t r = 0; r < height; ++r) {
      int32_t row;
      __builtin_memcpy(&row, tile.block_values + (2 * b + 1) * height + r, 4);
      any |= row;
    }
  return any != 0;
}

template <DType Type>
void multiply_piece(const Span& s, int64_t c, int64_t columns, int64_t from, int64_t to, const uint8_t* weights,
                    const uint8_t* next, int64_t next_bytes) {
  alignas(64) uint8_t unpacked[kColumnPair * kPiece * kTileBytes];
  alignas(64) int32_t stored[4 * kSums];
  alignas(64) float unused[kRowTile * kColumnTile];
  const int64_t chunks = to - from, row_tiles = (s.r1 - s.r0 + kRowTile - 1) / kRowTile;
  Job job;
  job.stored = stored, job.begun = false;
  bool exact = false;
  for (int64_t j = 0; j < kColumnPair; ++j) {
    job.weights[j] = weights + (j < columns ? j : 0) * s.tile_bytes;  // one tile alone is multiplied twice
    job.unpacked[j] = unpacked + j * kPiece * kTileBytes;
    exact = exact || marked<Type>(job.weights[j], chunks);
    unpack<Type>(job.weights[j], chunks, unpacked + j * kPiece * kTileBytes);
  }
  const uint8_t* const tiles = reinterpret_cast<const uint8_t*>(s.args.activations) + s.layout.bytes;
  const auto fill = [&](int64_t i, Tile& tile) {  // whether tiles can do it
    const int64_t r = s.r0 + i * kRowTile;
    fill_row_tile(s, r, from, tile);
    tile.chunks = chunks;
    return !exact && (Type != DType::Q4_K || !steep(tile, lesser(kRowTile, s.args.rows - r)));
  };
  Tile following;
  bool by_tiles = fill(0, following);
  int64_t fetched = 0;  // of the following pieces of both column tiles, one after the other
  for (int64_t i = 0; i < row_tiles; ++i) {
    const int64_t r = s.r0 + i * kRowTile, height = lesser(kRowTile, s.args.rows - r);
    const int64_t share = columns * next_bytes / row_tiles;
    const bool now = by_tiles, more = i + 1 < row_tiles;
    Tile& tile = job.rows = following;
    tile.next = fetched < next_bytes ? next + fetched : next + s.tile_bytes + (fetched - next_bytes);
    tile.step = (share / chunks + 63) / 64 * 64;
    tile.skip = 0;
    fetched += share;
    by_tiles = more && fill(i + 1, following);
    if (from == s.from) {
      begin_row_tile(s, c, columns, r, height);
      if (s.from > 0) prefetch_following(s, c, columns, r + kRowTile);
    }
    if (to == s.to) prefetch_row_tile(s, c, columns, r, height);
    for (int64_t j = 0; j < columns; ++j) job.sums[j] = s.sums + (j * (s.r1 - s.r0) + r - s.r0) * kColumnTile;
    if (columns < kColumnPair) job.sums[1] = unused;
    if (now) {
      job.tiles = tiles + (r / kRowTile * chunks_of(s.args.k) + from) * kTileBytes;
      const bool goes_on = by_tiles && chunks % 2 == 0;  // the steps after an odd number would meet other registers
      job.following = goes_on ? job.tiles + chunks_of(s.args.k) * kTileBytes : nullptr;
      kRowTiles<Type>[height - 1](job);
      job.begun = goes_on;
    } else {
      tile.next = weights, tile.step = 0;
      for (int64_t j = 0; j < columns; ++j) {
        tile.weights = job.weights[j], tile.sums = job.sums[j];
        kernel_of(Type, height, true)(tile);
      }
    }
    if (to == s.to) end_row_tile(s, c, columns, r, height);
  }
}

template <DType Type>
void multiply(const MatmulArgs& args) {
  // A thread's tiles are part of its state, which is saved when another one runs, until they are released.
  if (!Unit::configure(kConfig)) return avx512vnni::matmul(args);
  multiply_many<kPiece, ActivationLayout::kMain + kTileBytes / kRowTile>(args, multiply_piece<Type>);
  Unit::release();
}

}  // namespace

void matmul(const MatmulArgs& args) {
  const bool bytes = args.type == DType::Q8_0 || args.type == DType::Q8_M;
  if (args.rows < (bytes ? kLeastByteRows : kLeastRows)) return avx512vnni::matmul(args);
  switch (args.type) {
    case DType::Q4_0:
      return multiply<DType::Q4_0>(args);
    case DType::Q4_1:
      return multiply<DType::Q4_1>(args);
    case DType::Q4_K:
      return multiply<DType::Q4_K>(args);
    case DType::Q8_0:
      return multiply<DType::Q8_0>(args);
    case DType::Q8_M:
      return multiply<DType::Q8_M>(args);
    default:
      return avx512vnni::matmul(args);
  }
}

}  // namespace llada::kernels::LLADA_AMX_NAMESPACE
