// Products whose group sums fit 16 bits, as with 4-bit weights: |sum (q - 8) a| <= 32 * 8 * 127 = 32512. Two
// groups of all 16 columns are packed into one vector (vpackssdw, no saturation possible) and multiplied with
// their integer scales and added by one vpdpwssd. So a group costs half a multiply-add and half a pack
// instead of a conversion and a float multiply-add, and everything within a block of 256 is exact integer
// arithmetic; one float per row, column and block.
//   Q4_K: the 6-bit scales and mins of the format as they are, exact.
//   Q6_K: halves of its sub-groups of 16, exact.
//   Q4_0: 14-bit scales relative to a float of the column and block. A block where that would cost more than
//   2^-11 of
//         any group's scale is marked by a negative super-scale and keeps its F16 scales (exact_block,
//         slower).
#include <immintrin.h>

#include "kernels/avx512vnni_tile.h"

namespace llada::kernels::avx512vnni {
namespace {

constexpr int64_t kHeader = 64, kChunkBytes = 576;  // of a block; nibbles and scales of a chunk

__m512i broadcast64(const void* p) {
  long long v;
  __builtin_memcpy(&v, p, 8);
  return _mm512_set1_epi64(v);
}

__m512i broadcast32(const void* p) {
  int v;
  __builtin_memcpy(&v, p, 4);
  return _mm512_set1_epi32(v);
}

// sum (q - 8) a of one chunk; x and y as in avx512vnni.h.
template <int R>
inline __attribute__((always_inline)) void chunk_sums(const uint8_t* w, const uint8_t* a, const uint8_t* next,
                                                      __m512i (&x)[R], __m512i (&y)[R]) {
  const __m512i nibble = _mm512_set1_epi8(15);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) x[r] = y[r] = broadcast64(a + 64 * R + 8 * r);
#pragma GCC unroll 8
  for (int q = 0; q < 8; ++q) {
    const __m512i bytes = _mm512_load_si512(w + 64 * q);
    _mm_prefetch(reinterpret_cast<const char*>(next + 64 * q), _MM_HINT_T0);
    const __m512i wx = _mm512_and_si512(bytes, nibble);
    const __m512i wy = _mm512_and_si512(_mm512_srli_epi32(bytes, 4), nibble);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512i act = broadcast64(a + 8 * R * q + 8 * r);
      x[r] = _mm512_dpbusd_epi32(x[r], wx, act);
      y[r] = _mm512_dpbusd_epi32(y[r], wy, act);
    }
  }
  _mm_prefetch(reinterpret_cast<const char*>(next + 512), _MM_HINT_T0);
}

// A block of Q4_0 with one F16 scale per group: 32 B for X and 32 B for Y per chunk.
template <int R>
__attribute__((noinline)) void exact_block(const uint8_t* w, const uint8_t* a, const float* scales,
                                           int64_t chunks, float* sums) {
  __m512 fx[R], fy[R];
  for (int r = 0; r < R; ++r) fx[r] = fy[r] = _mm512_setzero_ps();
  for (int64_t c = 0; c < chunks; ++c, w += kChunkBytes, a += ActivationLayout::kMain * R) {
    __m512i x[R], y[R];
    chunk_sums<R>(w, a, w, x, y);
    const __m512 sx = _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(w + 512)));
    const __m512 sy = _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(w + 544)));
    for (int r = 0; r < R; ++r) {
      fx[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(x[r]), sx, fx[r]);
      fy[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(y[r]), sy, fy[r]);
    }
  }
  for (int r = 0; r < R; ++r) {  // A + B, columns in natural order
    const __m512 sum =
        _mm512_add_ps(_mm512_shuffle_ps(fx[r], fy[r], 0x88), _mm512_shuffle_ps(fx[r], fy[r], 0xdd));
    _mm512_storeu_ps(sums + 16 * r,
                     _mm512_fmadd_ps(sum, _mm512_set1_ps(scales[r]), _mm512_loadu_ps(sums + 16 * r)));
  }
}

template <int R>
void q4_0(const Tile& t) {
  const uint8_t* w = t.weights;
  const uint8_t* next = t.next;
  const uint8_t* a = t.main;
  const float* scales = t.scales;
  float* const sums = t.sums;
  for (int64_t left = t.chunks; left > 0; left -= kBlockChunks, scales += R) {
    const int64_t chunks = left < kBlockChunks ? left : kBlockChunks;
    int32_t mark;
    __builtin_memcpy(&mark, w, 4);
    if (__builtin_expect(mark < 0, 0)) {
      exact_block<R>(w + kHeader, a, scales, chunks, sums);
      w += kHeader + chunks * kChunkBytes;
      next += chunks * t.step;
      a += chunks * ActivationLayout::kMain * R;
      continue;
    }
    const __m512 super = _mm512_load_ps(w);
    w += kHeader;
    __m512i total[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) total[r] = _mm512_setzero_si512();
    for (int64_t c = 0; c < chunks; ++c, w += kChunkBytes, next += t.step, a += ActivationLayout::kMain * R) {
      __m512i x[R], y[R];
      chunk_sums<R>(w, a, next, x, y);
      const __m512i scale = _mm512_load_si512(w + 512);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        total[r] = _mm512_dpwssd_epi32(total[r], _mm512_packs_epi32(x[r], y[r]), scale);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(total[r]), super);
      _mm512_storeu_ps(sums + 16 * r,
                       _mm512_fmadd_ps(scaled, _mm512_set1_ps(scales[r]), _mm512_loadu_ps(sums + 16 * r)));
    }
  }
}

// w = d sc q - dmin mn, so with S = sum (q - 8) a and A = sum a of a group:
// sum w a = d * sum_g sc (S + 8 A) - dmin * sum_g mn A, both sums in integers.
template <int R>
void q4_k(const Tile& t) {
  const uint8_t* w = t.weights;
  const uint8_t* next = t.next;
  const uint8_t* a = t.main;
  const int16_t* pairs = t.pairs;
  const float* scales = t.scales;
  float* const sums = t.sums;
  for (int64_t left = t.chunks; left > 0; left -= kBlockChunks, scales += R) {
    const __m512 d = _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(w)));
    const __m512 dmin = _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(w + 32)));
    w += kHeader;
    __m512i total[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) total[r] = _mm512_setzero_si512();
    for (int c = 0; c < kBlockChunks;
         ++c, w += kChunkBytes, next += t.step, a += ActivationLayout::kMain * R) {
      __m512i x[R], y[R];
      chunk_sums<R>(w, a, next, x, y);
      const __m512i scale =
          _mm512_cvtepu8_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(w + 512)));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        total[r] = _mm512_dpwssd_epi32(total[r], _mm512_packs_epi32(x[r], y[r]), scale);
    }
    __m512i offset[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) offset[r] = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int c = 0; c < kBlockChunks; ++c, pairs += 2 * R) {
      const uint8_t* constants = w - (kBlockChunks - c) * kChunkBytes + 512;
      const __m512i scale8 = _mm512_slli_epi16(
          _mm512_cvtepu8_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(constants))), 3);
      const __m512i min =
          _mm512_cvtepu8_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(constants + 32)));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const __m512i pair = broadcast32(pairs + 2 * r);
        total[r] = _mm512_dpwssd_epi32(total[r], pair, scale8);
        offset[r] = _mm512_dpwssd_epi32(offset[r], pair, min);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      __m512 sum = _mm512_mul_ps(_mm512_cvtepi32_ps(total[r]), d);
      sum = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(offset[r]), dmin, sum);
      _mm512_storeu_ps(sums + 16 * r,
                       _mm512_fmadd_ps(sum, _mm512_set1_ps(scales[r]), _mm512_loadu_ps(sums + 16 * r)));
    }
  }
}

// The quants are q + 32, 6 bits: |sum (q - 32) a| of eight k is at most 8 * 32 * 127 = 32512, so half of a
// sub-group of 16 fits 16 bits. Exact integers within the block.
template <int R>
void q6_k(const Tile& t) {
  constexpr int64_t kBytes = 832, kRest = kBytes - 576;
  const __m512i nibble = _mm512_set1_epi8(15), top = _mm512_set1_epi8(0x30);
  const uint8_t* w = t.weights;
  const uint8_t* next = t.next;
  const uint8_t* rest = t.rest;
  const uint8_t* a = t.main;
  const int32_t* quarters = t.quarters;
  const float* scales = t.scales;
  float* const sums = t.sums;
  for (int64_t left = t.chunks; left > 0; left -= kBlockChunks, scales += R) {
    const __m512 d = _mm512_load_ps(w);
    w += kHeader;
    __m512i total[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) total[r] = _mm512_setzero_si512();
    for (int c = 0; c < kBlockChunks; ++c, w += kBytes, next += t.step, a += ActivationLayout::kMain * R) {
#pragma GCC unroll 4
      for (int quarter = 0; quarter < 4; ++quarter, quarters += 2 * R) {
        const __m512i high = _mm512_load_si512(w + 512 + 64 * quarter);
        __m512i x[R], y[R];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) x[r] = y[r] = broadcast64(quarters + 2 * r);
#pragma GCC unroll 2
        for (int step = 0; step < 2; ++step) {
          const int q = 2 * quarter + step;
          const __m512i low = _mm512_load_si512(w + 64 * q);
          _mm_prefetch(reinterpret_cast<const char*>(next + 64 * q), _MM_HINT_T0);
          const __m512i hx = step == 0 ? _mm512_slli_epi32(high, 4) : high;
          const __m512i hy = step == 0 ? _mm512_slli_epi32(high, 2) : _mm512_srli_epi32(high, 2);
          constexpr int kAndOr = 0xea;  // (a & b) | c
          const __m512i wx = _mm512_ternarylogic_epi32(nibble, low, _mm512_and_si512(hx, top), kAndOr);
          const __m512i wy =
              _mm512_ternarylogic_epi32(nibble, _mm512_srli_epi32(low, 4), _mm512_and_si512(hy, top), kAndOr);
#pragma GCC unroll 8
          for (int r = 0; r < R; ++r) {
            const __m512i act = broadcast64(a + 8 * R * q + 8 * r);
            x[r] = _mm512_dpbusd_epi32(x[r], wx, act);
            y[r] = _mm512_dpbusd_epi32(y[r], wy, act);
          }
        }
        const auto* constants = reinterpret_cast<const __m256i*>(w + 768 + 32 * (quarter / 2));
        const __m512i scale = _mm512_cvtepi8_epi16(_mm256_load_si256(constants));
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
          total[r] = _mm512_dpwssd_epi32(total[r], _mm512_packs_epi32(x[r], y[r]), scale);
      }
      if (rest != nullptr) {
#pragma GCC unroll 4
        for (int line = 0; line < 4; ++line)
          _mm_prefetch(reinterpret_cast<const char*>(rest + 64 * line), _MM_HINT_T0);
        rest += kRest;
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(total[r]), d);
      const __m512 sum = _mm512_loadu_ps(sums + 16 * r);
      _mm512_storeu_ps(sums + 16 * r, _mm512_fmadd_ps(scaled, _mm512_set1_ps(scales[r]), sum));
    }
  }
}

constexpr TileKernel kQ4_0[] = {q4_0<1>, q4_0<2>, q4_0<3>, q4_0<4>, q4_0<5>, q4_0<6>, q4_0<7>, q4_0<8>};
constexpr TileKernel kQ4_K[] = {q4_k<1>, q4_k<2>, q4_k<3>, q4_k<4>, q4_k<5>, q4_k<6>, q4_k<7>, q4_k<8>};

constexpr TileKernel kQ6_K[] = {q6_k<1>, q6_k<2>, q6_k<3>, q6_k<4>, q6_k<5>, q6_k<6>, q6_k<7>, q6_k<8>};

}  // namespace

TileKernel q4_0_kernel(int64_t rows) { return kQ4_0[rows - 1]; }
TileKernel q4_k_kernel(int64_t rows) { return kQ4_K[rows - 1]; }
TileKernel q6_k_kernel(int64_t rows) { return kQ6_K[rows - 1]; }

}  // namespace llada::kernels::avx512vnni
