// AVX-512 with VNNI: sixteen outputs in a register.
#include <immintrin.h>

#include "devices/hexagon/host/tile_rows-inl.h"

namespace llada::hexagon::tiles {
namespace {

struct Lanes {
  using I = __m512i;
  static constexpr int kOutputs = 16;
  static TILE_INLINE I load(const void* p) { return _mm512_loadu_si512(p); }
  static TILE_INLINE void store(void* p, I v) { _mm512_storeu_si512(p, v); }
  static TILE_INLINE I splat(int32_t v) { return _mm512_set1_epi32(v); }
  static TILE_INLINE I sum(I a, I b) { return _mm512_add_epi32(a, b); }
  static TILE_INLINE I both(I a, I b) { return _mm512_and_si512(a, b); }
  static TILE_INLINE I left(I v, int bits) { return _mm512_sll_epi32(v, _mm_cvtsi32_si128(bits)); }
  static TILE_INLINE I right(I v, int bits) { return _mm512_sra_epi32(v, _mm_cvtsi32_si128(bits)); }
  static TILE_INLINE I low_nibbles(I v) { return both(v, splat(0x0f0f0f0f)); }
  static TILE_INLINE I high_nibbles(I v) { return low_nibbles(_mm512_srli_epi16(v, 4)); }
  static TILE_INLINE __m256i scales(const int16_t* p) { return _mm256_loadu_si256(as<__m256i_u>(p)); }
  // round(scale * mantissa / 2^15), in the low half of each lane.
  static TILE_INLINE I rounded(__m256i scales, int32_t mantissa) {
    return _mm512_cvtepu16_epi32(_mm256_mulhrs_epi16(scales, _mm256_set1_epi16(static_cast<int16_t>(mantissa))));
  }
  // The low half of v as a signed number times c.
  static TILE_INLINE I low_products(I v, I c) { return _mm512_madd_epi16(v, c); }
  template <bool>
  static TILE_INLINE I dot(I total, I w, int32_t x) {
    return _mm512_dpbusd_epi32(total, w, splat(x));
  }
};

}  // namespace
}  // namespace llada::hexagon::tiles

#include "devices/hexagon/host/tiles_x86-inl.h"

namespace llada::hexagon::tiles {

void avx512vnni(dsp::Format format, const dsp::TileJob& job) { multiply_tile<Strip>(format, job); }

}  // namespace llada::hexagon::tiles
