// Vectors of 16 floats: the words that x86_*-inl.h and digest-inl.h are written in. LLADA_VECTOR_NAMESPACE names their
// namespace; everything is local to the including file (see x86_rows-inl.h).
#pragma once
#include <immintrin.h>

#include <cstdint>

namespace llada::kernels::LLADA_VECTOR_NAMESPACE {
namespace {

// One register of floats; the words that x86_*-inl.h are written in.
using Vec = __m512;
using Mask = __mmask16;
using Ints = __m512i;
constexpr int kLanes = 16;
inline Mask first_lanes(int64_t n) { return static_cast<Mask>((1u << n) - 1); }
inline Vec zero() { return _mm512_setzero_ps(); }
inline Vec fill(float x) { return _mm512_set1_ps(x); }
inline Vec load(const float* p) { return _mm512_loadu_ps(p); }
inline Vec load_first(const float* p, int64_t n, float other) {
  return _mm512_mask_loadu_ps(fill(other), first_lanes(n), p);
}
inline void store(float* p, Vec x) { _mm512_storeu_ps(p, x); }
inline void store_first(float* p, int64_t n, Vec x) { _mm512_mask_storeu_ps(p, first_lanes(n), x); }
inline Vec load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Vec load_bf16(const uint16_t* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
inline void store_f16(uint16_t* p, Vec x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
inline Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
inline Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
inline Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
inline Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec fma_negative(Vec a, Vec b, Vec c) { return _mm512_fnmadd_ps(a, b, c); }     // c - a b
inline Vec fma_alternate(Vec a, Vec b, Vec c) { return _mm512_fmaddsub_ps(a, b, c); }  // even lanes a b - c
inline Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }                           // b where either is NaN
inline Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
inline Vec round(Vec x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Vec scale_by_power(Vec x, Vec n) { return _mm512_scalef_ps(x, n); }  // x 2^n, n whole
inline Vec swap_pairs(Vec x) { return _mm512_permute_ps(x, 0xb1); }
inline Vec load_twice(const float* p) {  // p[0] p[0] p[1] p[1] ...
  const Vec half = _mm512_castps256_ps512(_mm256_loadu_ps(p));
  return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7), half);
}
// x[i] lane j becomes x[j] lane i: pairs and fours within 128 bits, then the 128-bit parts as a 4 x 4 matrix.
inline void transpose(Vec (&x)[kLanes]) {
  Vec fours[kLanes];
#pragma GCC unroll 4
  for (int i = 0; i < kLanes; i += 4) {
    const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(x[i], x[i + 1])),
                  b = _mm512_castps_pd(_mm512_unpackhi_ps(x[i], x[i + 1])),
                  c = _mm512_castps_pd(_mm512_unpacklo_ps(x[i + 2], x[i + 3])),
                  d = _mm512_castps_pd(_mm512_unpackhi_ps(x[i + 2], x[i + 3]));
    fours[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    fours[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    fours[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    fours[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const Vec a = _mm512_shuffle_f32x4(fours[i], fours[i + 4], 0x44),
              b = _mm512_shuffle_f32x4(fours[i], fours[i + 4], 0xee),
              c = _mm512_shuffle_f32x4(fours[i + 8], fours[i + 12], 0x44),
              d = _mm512_shuffle_f32x4(fours[i + 8], fours[i + 12], 0xee);
    x[i] = _mm512_shuffle_f32x4(a, c, 0x88);
    x[i + 4] = _mm512_shuffle_f32x4(a, c, 0xdd);
    x[i + 8] = _mm512_shuffle_f32x4(b, d, 0x88);
    x[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
  }
}
inline Mask greater(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
inline Mask both(Mask a, Mask b) { return a & b; }
inline Vec choose(Mask m, Vec yes, Vec no) { return _mm512_mask_blend_ps(m, no, yes); }
inline Ints choose(Mask m, Ints yes, Ints no) { return _mm512_mask_blend_epi32(m, no, yes); }
inline Ints fill_int(int x) { return _mm512_set1_epi32(x); }
inline Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
inline Ints lane_numbers() { return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
inline void store(int* p, Ints x) { _mm512_storeu_si512(p, x); }

// Sums in double, lane by lane.
struct DoubleSum {
  __m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();
  void add(Vec x) {
    low = _mm512_add_pd(low, _mm512_cvtps_pd(_mm512_castps512_ps256(x)));
    high = _mm512_add_pd(high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)));
  }
  double total() const {
    double lanes[8], sum = 0;
    _mm512_storeu_pd(lanes, _mm512_add_pd(low, high));
    for (const double lane : lanes) sum += lane;
    return sum;
  }
};

}  // namespace
}  // namespace llada::kernels::LLADA_VECTOR_NAMESPACE
