// Vectors of 8 floats: the words that x86_*-inl.h and digest-inl.h are written in. LLADA_VECTOR_NAMESPACE names their
// namespace; everything is local to the including file (see x86_rows-inl.h).
#pragma once
#include <immintrin.h>

#include <cstdint>

namespace llada::kernels::LLADA_VECTOR_NAMESPACE {
namespace {

// One register of floats; the words that x86_*-inl.h are written in. A mask is a vector of all-ones lanes.
using Vec = __m256;
using Mask = __m256;
using Ints = __m256i;
constexpr int kLanes = 8;

inline Ints fill_int(int x) { return _mm256_set1_epi32(x); }
inline Ints add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
inline Ints lane_numbers() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
inline void store(int* p, Ints x) { _mm256_storeu_si256(reinterpret_cast<Ints*>(p), x); }
inline Ints first_lanes(int64_t n) {
  return _mm256_cmpgt_epi32(fill_int(n < kLanes ? static_cast<int>(n) : kLanes), lane_numbers());
}
inline Vec zero() { return _mm256_setzero_ps(); }
inline Vec fill(float x) { return _mm256_set1_ps(x); }
inline Vec load(const float* p) { return _mm256_loadu_ps(p); }
inline Vec load_first(const float* p, int64_t n, float other) {
  const Ints mask = first_lanes(n);
  return _mm256_blendv_ps(fill(other), _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask));
}
inline void store(float* p, Vec x) { _mm256_storeu_ps(p, x); }
inline void store_first(float* p, int64_t n, Vec x) { _mm256_maskstore_ps(p, first_lanes(n), x); }
inline __m128i load_128(const uint16_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
inline Vec load_f16(const uint16_t* p) { return _mm256_cvtph_ps(load_128(p)); }
inline Vec load_bf16(const uint16_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_128(p)), 16));
}
inline void store_f16(uint16_t* p, Vec x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
inline Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
inline Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
inline Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
inline Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline Vec fma_negative(Vec a, Vec b, Vec c) { return _mm256_fnmadd_ps(a, b, c); }     // c - a b
inline Vec fma_alternate(Vec a, Vec b, Vec c) { return _mm256_fmaddsub_ps(a, b, c); }  // even lanes a b - c
inline Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }                           // b where either is NaN
inline Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
inline Vec round(Vec x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Vec power(Ints n) {  // 2^n of normal numbers
  return _mm256_castsi256_ps(_mm256_slli_epi32(add(n, fill_int(127)), 23));
}
inline Vec scale_by_power(Vec x, Vec n) {  // x 2^n, n whole; in two steps, the first of them exact
  const Ints whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
  return mul(mul(x, power(half)), power(_mm256_sub_epi32(whole, half)));
}
inline Vec swap_pairs(Vec x) { return _mm256_permute_ps(x, 0xb1); }
inline Vec load_twice(const float* p) {  // p[0] p[0] p[1] p[1] ...
  const Vec half = _mm256_castps128_ps256(_mm_loadu_ps(p));
  return _mm256_permutevar8x32_ps(half, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
}
inline Mask greater(Vec a, Vec b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
inline Mask both(Mask a, Mask b) { return _mm256_and_ps(a, b); }
inline Vec choose(Mask m, Vec yes, Vec no) { return _mm256_blendv_ps(no, yes, m); }
inline Ints choose(Mask m, Ints yes, Ints no) { return _mm256_blendv_epi8(no, yes, _mm256_castps_si256(m)); }

// Sums in double, lane by lane.
struct DoubleSum {
  __m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
  void add(Vec x) {
    low = _mm256_add_pd(low, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
    high = _mm256_add_pd(high, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
  }
  double total() const {
    double lanes[4], sum = 0;
    _mm256_storeu_pd(lanes, _mm256_add_pd(low, high));
    for (const double lane : lanes) sum += lane;
    return sum;
  }
};

}  // namespace
}  // namespace llada::kernels::LLADA_VECTOR_NAMESPACE
