// AVX2 without the dot product of bytes.
#include "devices/hexagon/host/lanes_avx2-inl.h"

namespace llada::hexagon::tiles {
namespace {

struct Lanes : Lanes256 {
  // sum + the products of four unsigned bytes with the signed ones of x. Pairs of products are added in 16 bits, which
  // saturate: nibbles' reach 2 * 15 * 128, bytes' would not fit and are widened first.
  template <bool kNibbles>
  static TILE_INLINE I dot(I total, I w, int32_t x) {
    const I values = splat(x);
    if constexpr (kNibbles) {
      return sum(total, _mm256_madd_epi16(_mm256_maddubs_epi16(w, values), _mm256_set1_epi16(1)));
    } else {
      const I even =
          _mm256_madd_epi16(both(w, _mm256_set1_epi16(255)), _mm256_srai_epi16(_mm256_slli_epi16(values, 8), 8));
      return sum(total, sum(even, _mm256_madd_epi16(_mm256_srli_epi16(w, 8), _mm256_srai_epi16(values, 8))));
    }
  }
};

}  // namespace
}  // namespace llada::hexagon::tiles

#include "devices/hexagon/host/tiles_x86-inl.h"

namespace llada::hexagon::tiles {

void avx2(dsp::Format format, const dsp::TileJob& job) { multiply_tile<Strip>(format, job); }

}  // namespace llada::hexagon::tiles
