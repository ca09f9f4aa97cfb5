// AVX2 with AVX-VNNI: the very instruction of the DSP's vector unit.
#include "devices/hexagon/host/lanes_avx2-inl.h"

namespace llada::hexagon::tiles {
namespace {

struct Lanes : Lanes256 {
  template <bool>
  static TILE_INLINE I dot(I total, I w, int32_t x) {
    return _mm256_dpbusd_avx_epi32(total, w, splat(x));
  }
};

}  // namespace
}  // namespace llada::hexagon::tiles

#include "devices/hexagon/host/tiles_x86-inl.h"

namespace llada::hexagon::tiles {

void avxvnni(dsp::Format format, const dsp::TileJob& job) { multiply_tile<Strip>(format, job); }

}  // namespace llada::hexagon::tiles
