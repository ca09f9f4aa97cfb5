// Products whose group sums fit 16 bits, as with 4-bit weights: |sum (q - 8) a| <= 32 * 8 * 127 = 32512.
//
// Two groups of all 16 columns are packed into one vector (vpackssdw, no saturation possible), multiplied with their
// integer scales and added by one vpdpwssd. Before that one vpmulhrsw has multiplied the weights' scales with a row's
// own scales of both groups. So a group costs half a multiply-add, half a multiplication and half a pack instead of a
// conversion and a float multiply-add. Everything within a block of 256 is integer arithmetic; there is one float per
// row, column and block.
//
// The bound: multiplications of bytes, words and floats share two ports, and everything else has others on AMD's
// processors. A block of 8 rows has 512, 32 + 32 and 16 of them. On Intel's everything shares the two, so masks and
// shifts count: many row tiles read weights that were unpacked once (avx512vnni_matmul.cc).
//
//   Q4_K  the 6-bit scales and mins of the format, the scales times 64 before a row's ratios make them 12-bit integers.
//         Sums of q fit without the - 8 where neither the positive nor the negative quants of a group sum up to more
//         than 2184, since 15 * 2184 <= 32767. A group that does, of nearly constant values of one sign, makes its row
//         steep. |total| <= 8 * 4032 * 15 * 32 * 127 < 2^31.
//   Q4_0  14-bit scales relative to a float of the column and block. A block where that would cost more than 2^-11 of
//         any group's scale is marked by a negative super-scale and keeps its F16 scales (exact_block, slower).
//   Q4_1  the same with 16 bits, and offsets of w = d (q - 8) + (m + 8 d) in eight of the scales' units. So both go to
//         the same totals: one vpdpwssd more per row and chunk. The float of a column and block is such that the
//         totals, which are its w a, stay below 2^31 whatever the activations are (pack_q4_1).
#include "kernels/avx512vnni_tile.h"
#include "kernels/avx512vnni_vector-inl.h"

namespace llada::kernels::avx512vnni {
namespace {

constexpr int64_t kHeader = 64;  // of a block
constexpr int64_t kNibbles = 512, kBytes = 1024;

// Quants of a chunk: as packed, or one byte each (unpack). The chunk's scales follow in 64 bytes, offsets in 64 more.
template <bool Ready>
inline constexpr int64_t kQuants = Ready ? kBytes : kNibbles;
template <bool Ready, bool kOffsets = false>
inline constexpr int64_t kChunkBytes = kQuants<Ready> + (kOffsets ? 128 : 64);
static_assert(kChunkBytes<true, true> <= kUnpackedChunk);

// X and Y of a step.
template <bool Ready>
inline __attribute__((always_inline)) void load_step(const uint8_t* w, int q, __m512i& x, __m512i& y) {
  if constexpr (Ready) {
    x = _mm512_load_si512(w + 128 * q), y = _mm512_load_si512(w + 128 * q + 64);
  } else {
    const __m512i nibble = _mm512_set1_epi8(15), bytes = _mm512_load_si512(w + 64 * q);
    x = _mm512_and_si512(bytes, nibble), y = _mm512_and_si512(_mm512_srli_epi32(bytes, 4), nibble);
  }
}

// sum (q - 8) a of one chunk, or sum q a of steps [From, To), given to take(row, x, y), x and y as in avx512vnni.h. A
// row's sums are taken beside the last steps of the next row: all of them at the end fill the ports that multiply in
// bursts.
template <int R, Fetch F, bool Ready, bool Centred = true, int From = 0, int To = 8, class Take>
inline __attribute__((always_inline)) void chunk_sums(const uint8_t* w, const uint8_t* a, const uint8_t* next,
                                                      Take take) {
  __m512i x[R], y[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) x[r] = y[r] = Centred ? broadcast64(a + 64 * R + 8 * r) : _mm512_setzero_si512();
#pragma GCC unroll 8
  for (int q = From; q < To; ++q) {
    __m512i wx, wy;
    load_step<Ready>(w, q, wx, wy);
    prefetch<F>(next + 64 * q);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512i act = broadcast64(a + 8 * R * q + 8 * r);
      add_fours(x[r], wx, act);
      add_fours(y[r], wy, act);
      if (q == To - 1 && r > 0) take(r - 1, x[r - 1], y[r - 1]);
    }
  }
  prefetch<F>(next + 512);
  take(R - 1, x[R - 1], y[R - 1]);
}

// Q4_0, or with offsets Q4_1.
template <int R, bool Second, bool kOffsets, bool Ready = false>
void q4(const Tile& t) {
  constexpr Fetch F = kFetch<R, Second>;
  constexpr int64_t kChunkSize = kChunkBytes<Ready, kOffsets>;
  const uint8_t* w = t.weights;
  const uint8_t* next = t.next;
  const uint8_t* a = t.main;
  const int16_t* ratios = t.ratios;
  const int16_t* pairs = t.pairs;
  const float* scales = t.scales;
  const float* values = t.block_values;
  for (int64_t left = t.chunks; left > 0; left -= kBlockChunks, values += ActivationLayout::kBlockValues * R,
               scales += 2 * kBlockChunks * R, next += t.skip) {
    const int64_t chunks = left < kBlockChunks ? left : kBlockChunks;
    prefetch<F>(next + kBlockChunks * kChunkBytes<false, kOffsets>);
    int32_t mark;
    __builtin_memcpy(&mark, w, 4);
    if (__builtin_expect(mark < 0, 0)) {
      exact_block<R, kChunkSize, kOffsets>(
          w + kHeader, a, scales, chunks, t.sums,
          [](const uint8_t* chunk, const uint8_t* quants, __m512i(&x)[R], __m512i(&y)[R]) {
            chunk_sums<R, F, Ready>(chunk, quants, chunk,
                                    [&](int r, __m512i row_x, __m512i row_y) { x[r] = row_x, y[r] = row_y; });
          });
      w += kHeader + chunks * kChunkSize;
      next += chunks * t.step;
      a += chunks * ActivationLayout::kMain * R;
      ratios += 2 * chunks * R;
      pairs += 2 * chunks * R;
      continue;
    }
    const __m512 super = _mm512_load_ps(w);
    w += kHeader;
    __m512i total[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) total[r] = _mm512_setzero_si512();
    for (int64_t c = 0; c < chunks;
         ++c, w += kChunkSize, next += t.step, a += ActivationLayout::kMain * R, ratios += 2 * R, pairs += 2 * R) {
      chunk_sums<R, F, Ready>(w, a, next, [&](int r, __m512i x, __m512i y) __attribute__((always_inline)) {
        add_pairs(total[r], _mm512_packs_epi32(x, y), scaled_by(_mm512_load_si512(w + kQuants<Ready>), ratios + 2 * r));
        if constexpr (kOffsets) add_pairs(total[r], _mm512_load_si512(w + kQuants<Ready> + 64), pairs + 2 * r);
      });
      if constexpr (kOffsets) prefetch<F>(next + kPrefetched);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) add_scaled(t.sums + 16 * r, total[r], super, values[r]);
  }
}

// One block of w = d sc q - dmin mn: sum w a = d * sum_g sc sum q a - dmin * sum_g mn sum a, both sums of the groups
// with their ratios and in integers. Steep: sums of half a group, of which each fits 16 bits. The prefetched place
// moves on by `step` per chunk.
template <int R, Fetch F, bool Steep, bool Ready>
inline __attribute__((always_inline)) void q4_k_block(const uint8_t* w, const uint8_t* a, const int16_t* ratios,
                                                      const int16_t* pairs, const float* scales, const uint8_t* next,
                                                      int64_t step, float* sums) {
  const __m512 d = _mm512_mul_ps(_mm512_cvtph_ps(load256(w)), _mm512_set1_ps(1.0f / 64));
  const __m512 dmin = _mm512_mul_ps(_mm512_cvtph_ps(load256(w + 32)), _mm512_set1_ps(1.0f / 8));  // the pairs' factor
  w += kHeader;
  __m512i total[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) total[r] = _mm512_setzero_si512();
  for (int c = 0; c < kBlockChunks;
       ++c, w += kChunkBytes<Ready>, next += step, a += ActivationLayout::kMain * R, ratios += 2 * R) {
    const __m512i scale = _mm512_slli_epi16(_mm512_cvtepu8_epi16(load256(w + kQuants<Ready>)), 6);
    const auto add = [&](int r, __m512i x, __m512i y) __attribute__((always_inline)) {
      add_pairs(total[r], _mm512_packs_epi32(x, y), scaled_by(scale, ratios + 2 * r));
    };
    if constexpr (Steep) {
      chunk_sums<R, F, Ready, false, 0, 4>(w, a, next, add);
      chunk_sums<R, F, Ready, false, 4, 8>(w, a, next, add);
    } else {
      chunk_sums<R, F, Ready, false>(w, a, next, add);
    }
  }
  __m512i offset[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) offset[r] = _mm512_setzero_si512();
#pragma GCC unroll 4
  for (int c = 0; c < kBlockChunks; ++c, pairs += 2 * R) {
    const __m512i min =
        _mm512_cvtepu8_epi16(load256(w - (kBlockChunks - c) * kChunkBytes<Ready> + kQuants<Ready> + 32));
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) add_pairs(offset[r], min, pairs + 2 * r);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    __m512 sum = _mm512_mul_ps(_mm512_cvtepi32_ps(total[r]), d);
    sum = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(offset[r]), dmin, sum);
    _mm512_storeu_ps(sums + 16 * r, _mm512_fmadd_ps(sum, _mm512_set1_ps(scales[r]), _mm512_loadu_ps(sums + 16 * r)));
  }
}

template <int R, bool Ready>
__attribute__((noinline)) void steep_q4_k_block(const uint8_t* w, const uint8_t* a, const int16_t* ratios,
                                                const int16_t* pairs, const float* scales, float* sums) {
  q4_k_block<R, Fetch::second, true, Ready>(w, a, ratios, pairs, scales, w, 0, sums);
}

template <int R, bool Second, bool Ready = false>
void q4_k(const Tile& t) {
  constexpr Fetch F = kFetch<R, Second>;
  const uint8_t* w = t.weights;
  const uint8_t* next = t.next;
  const uint8_t* a = t.main;
  const int16_t* ratios = t.ratios;
  const int16_t* pairs = t.pairs;
  const float* values = t.block_values;
  for (int64_t left = t.chunks; left > 0; left -= kBlockChunks) {
    prefetch<F>(next + kBlockChunks * kChunkBytes<false>);
    if (__builtin_expect(any_steep<R>(values), 0))
      steep_q4_k_block<R, Ready>(w, a, ratios, pairs, values, t.sums);
    else
      q4_k_block<R, F, false, Ready>(w, a, ratios, pairs, values, next, t.step, t.sums);
    w += kHeader + kBlockChunks * kChunkBytes<Ready>;
    next += kBlockChunks * t.step + t.skip;
    a += kBlockChunks * ActivationLayout::kMain * R;
    ratios += 2 * kBlockChunks * R;
    pairs += 2 * kBlockChunks * R;
    values += ActivationLayout::kBlockValues * R;
  }
}

template <bool Second, bool kOffsets>
constexpr TileKernel kQ4[] = {q4<1, Second, kOffsets>, q4<2, Second, kOffsets>, q4<3, Second, kOffsets>,
                              q4<4, Second, kOffsets>, q4<5, Second, kOffsets>, q4<6, Second, kOffsets>,
                              q4<7, Second, kOffsets>, q4<8, Second, kOffsets>};
template <bool Second>
constexpr TileKernel kQ4_K[] = {q4_k<1, Second>, q4_k<2, Second>, q4_k<3, Second>, q4_k<4, Second>,
                                q4_k<5, Second>, q4_k<6, Second>, q4_k<7, Second>, q4_k<8, Second>};
// Whole row tiles prefetch to the first level, the last one of a block to the second.
template <bool kOffsets>
constexpr TileKernel kReadyQ4[] = {q4<1, true, kOffsets, true>, q4<2, true, kOffsets, true>,
                                   q4<3, true, kOffsets, true>, q4<4, true, kOffsets, true>,
                                   q4<5, true, kOffsets, true>, q4<6, true, kOffsets, true>,
                                   q4<7, true, kOffsets, true>, q4<8, false, kOffsets, true>};
constexpr TileKernel kReadyQ4_K[] = {q4_k<1, true, true>, q4_k<2, true, true>, q4_k<3, true, true>,
                                     q4_k<4, true, true>, q4_k<5, true, true>, q4_k<6, true, true>,
                                     q4_k<7, true, true>, q4_k<8, false, true>};

}  // namespace

TileKernel q4_0_kernel(int64_t rows, bool second) { return (second ? kQ4<true, false> : kQ4<false, false>)[rows - 1]; }
TileKernel q4_1_kernel(int64_t rows, bool second) { return (second ? kQ4<true, true> : kQ4<false, true>)[rows - 1]; }
TileKernel q4_k_kernel(int64_t rows, bool second) { return (second ? kQ4_K<true> : kQ4_K<false>)[rows - 1]; }

TileKernel unpacked_kernel(DType type, int64_t rows) {
  if (type == DType::Q6_K) return unpacked_q6_k_kernel(rows);
  if (type == DType::Q4_K) return kReadyQ4_K[rows - 1];
  return (type == DType::Q4_1 ? kReadyQ4<true> : kReadyQ4<false>)[rows - 1];
}

void unpack(DType type, const uint8_t* w, int64_t chunks, uint8_t* out) {
  if (type == DType::Q6_K) return unpack_q6_k(w, chunks, out);
  const int64_t constants = type == DType::Q4_1 ? 128 : 64;
  for (int64_t c = 0; c < chunks; ++c, w += kNibbles + constants, out += kBytes + constants) {
    if (c % kBlockChunks == 0) {
      _mm512_store_si512(out, _mm512_load_si512(w));
      w += kHeader, out += kHeader;
    }
    for (int q = 0; q < 8; ++q) {
      __m512i x, y;
      load_step<false>(w, q, x, y);
      _mm512_store_si512(out + 128 * q, x);
      _mm512_store_si512(out + 128 * q + 64, y);
    }
    for (int64_t at = 0; at < constants; at += 64)
      _mm512_store_si512(out + kBytes + at, _mm512_load_si512(w + kNibbles + at));
  }
}

}  // namespace llada::kernels::avx512vnni
