// Eight outputs in a register of 256 bits; `dot` is the set's own.
#pragma once
#include <immintrin.h>

#include "devices/hexagon/host/tile_rows-inl.h"

namespace llada::hexagon::tiles {
namespace {

struct Lanes256 {
  using I = __m256i;
  static constexpr int kOutputs = 8;
  static TILE_INLINE I load(const void* p) { return _mm256_loadu_si256(as<__m256i_u>(p)); }
  static TILE_INLINE void store(void* p, I v) { _mm256_storeu_si256(static_cast<__m256i_u*>(p), v); }
  static TILE_INLINE I splat(int32_t v) { return _mm256_set1_epi32(v); }
  static TILE_INLINE I sum(I a, I b) { return _mm256_add_epi32(a, b); }
  static TILE_INLINE I both(I a, I b) { return _mm256_and_si256(a, b); }
  static TILE_INLINE I left(I v, int bits) { return _mm256_sll_epi32(v, _mm_cvtsi32_si128(bits)); }
  static TILE_INLINE I right(I v, int bits) { return _mm256_sra_epi32(v, _mm_cvtsi32_si128(bits)); }
  static TILE_INLINE I low_nibbles(I v) { return both(v, splat(0x0f0f0f0f)); }
  static TILE_INLINE I high_nibbles(I v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }
  static TILE_INLINE __m128i scales(const int16_t* p) { return _mm_loadu_si128(as<__m128i_u>(p)); }
  // round(scale * mantissa / 2^15), in the low half of each lane.
  static TILE_INLINE I rounded(__m128i scales, int32_t mantissa) {
    return _mm256_cvtepu16_epi32(_mm_mulhrs_epi16(scales, _mm_set1_epi16(static_cast<int16_t>(mantissa))));
  }
  // The low half of v as a signed number times c.
  static TILE_INLINE I low_products(I v, I c) { return _mm256_madd_epi16(v, c); }
};

}  // namespace
}  // namespace llada::hexagon::tiles
