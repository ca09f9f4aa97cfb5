// Small words shared by the AVX-512 VNNI product kernels. Everything is local to the including file, so that no code
// for newer processors can replace a shared function when the program is linked.
#pragma once
#include <immintrin.h>

#include <cstdint>

#include "kernels/avx512vnni_tile.h"

namespace llada::kernels::avx512vnni {
namespace {

inline __m512i broadcast64(const void* p) {
  long long v;
  __builtin_memcpy(&v, p, 8);
  return _mm512_set1_epi64(v);
}
inline __m512i broadcast32(const void* p) {
  int v;
  __builtin_memcpy(&v, p, 4);
  return _mm512_set1_epi32(v);
}
// Multiply-adds of bytes (a unsigned, b signed) in fours and of 16-bit words in pairs. As assembly, because as
// intrinsics GCC 12 copies sums and clang 19 and 22 put them on the stack.
inline __attribute__((always_inline)) void add_fours(__m512i& sum, __m512i a, __m512i b) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
}
inline __attribute__((always_inline)) void add_pairs(__m512i& sum, __m512i a, __m512i b) {
  asm("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
}
// The same with one pair for all lanes.
inline __attribute__((always_inline)) void add_pairs(__m512i& sum, __m512i a, const int16_t* pair) {
  asm("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(a), "m"(*reinterpret_cast<const int16_t(*)[2]>(pair)));
}

// As assembly: GCC 12 takes a function that only prefetches for one without effects, and drops the calls.
template <Fetch F>
inline void prefetch(const uint8_t* p) {
  if constexpr (F == Fetch::past)
    asm volatile("prefetchnta %0" : : "m"(*p));
  else if constexpr (F == Fetch::first)
    asm volatile("prefetcht0 %0" : : "m"(*p));
  else
    asm volatile("prefetcht1 %0" : : "m"(*p));
}
inline __m256i load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

// Whether a row of the tile is steep in this block; values: its block values.
template <int R>
inline bool any_steep(const float* values) {
  int32_t steep = 0;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    int32_t row;
    __builtin_memcpy(&row, values + R + r, 4);
    steep |= row;
  }
  return steep != 0;
}

// sums += total * scale (per column) * row_scale.
inline void add_scaled(float* sums, __m512i total, __m512 scale, float row_scale) {
  const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(total), scale);
  _mm512_storeu_ps(sums, _mm512_fmadd_ps(scaled, _mm512_set1_ps(row_scale), _mm512_loadu_ps(sums)));
}

// The integer weight scales of a chunk times the ratios of a row's groups A and B (avx512vnni.h).
inline __attribute__((always_inline)) __m512i scaled_by(__m512i scale, const int16_t* ratios) {
  return _mm512_mulhrs_epi16(scale, broadcast32(ratios));
}

// A row's float scales of A and B, in the lanes of X and Y.
inline __m512 scale_lanes(const float* scales) { return _mm512_castsi512_ps(broadcast64(scales)); }

// Columns' float sums of A and B (lanes as in avx512vnni.h) into natural order.
inline void add_lanes(float* sums, __m512 x, __m512 y) {
  const __m512 sum = _mm512_add_ps(_mm512_shuffle_ps(x, y, 0x88), _mm512_shuffle_ps(x, y, 0xdd));
  _mm512_storeu_ps(sums, _mm512_add_ps(sum, _mm512_loadu_ps(sums)));
}

// A block with one F16 scale per group, the last 64 of a chunk's `Bytes`: 32 B for X and 32 B for Y. chunk_sums(w, a,
// x, y) sets x and y to the group sums of a chunk; scales: the rows' floats. kOffsets: F16 offsets follow the scales,
// and the group sums are those of q - 8.
template <int R, int64_t Bytes, bool kOffsets = false, class ChunkSums>
__attribute__((noinline)) void exact_block(const uint8_t* w, const uint8_t* a, const float* scales, int64_t chunks,
                                           float* sums, ChunkSums chunk_sums) {
  __m512 fx[R], fy[R];
  for (int r = 0; r < R; ++r) fx[r] = fy[r] = _mm512_setzero_ps();
  for (int64_t c = 0; c < chunks; ++c, w += Bytes, a += ActivationLayout::kMain * R, scales += 2 * R) {
    __m512i x[R], y[R];
    chunk_sums(w, a, x, y);
    const uint8_t* const constants = w + Bytes - (kOffsets ? 128 : 64);
    const __m512 sx = _mm512_cvtph_ps(load256(constants)), sy = _mm512_cvtph_ps(load256(constants + 32));
    for (int r = 0; r < R; ++r) {
      const __m512 row = scale_lanes(scales + 2 * r);
      fx[r] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(x[r]), row), sx, fx[r]);
      fy[r] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(y[r]), row), sy, fy[r]);
    }
    if constexpr (kOffsets) {  // the activations bring -8 * sum: -m / 8 - d
      const __m512 eighth = _mm512_set1_ps(0.125f);
      const __m512 ox = _mm512_fnmsub_ps(_mm512_cvtph_ps(load256(constants + 64)), eighth, sx);
      const __m512 oy = _mm512_fnmsub_ps(_mm512_cvtph_ps(load256(constants + 96)), eighth, sy);
      for (int r = 0; r < R; ++r) {
        const __m512i sum = broadcast64(a + 64 * R + 8 * r);
        const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale_lanes(scales + 2 * r));
        fx[r] = _mm512_fmadd_ps(scaled, ox, fx[r]);
        fy[r] = _mm512_fmadd_ps(scaled, oy, fy[r]);
      }
    }
  }
  for (int r = 0; r < R; ++r) add_lanes(sums + 16 * r, fx[r], fy[r]);
}

}  // namespace
}  // namespace llada::kernels::avx512vnni
