#include "devices/hexagon/host/tiles.h"

#include <vector>

#include "base/system.h"
#include "devices/hexagon/dsp/tile.h"

namespace llada::hexagon {

std::span<const TileKernels> tile_kernels() {
  static const std::vector<TileKernels> list = [] {
    std::vector<TileKernels> found;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
          __builtin_cpu_supports("avx512vnni"))
        found.push_back({"avx512vnni", tiles::avx512vnni});
#ifdef LLADA_AVXVNNI_EVEX
      if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni"))
#else
      if (__builtin_cpu_supports("avxvnni"))
#endif
        found.push_back({"avxvnni", tiles::avxvnni});
      found.push_back({"avx2", tiles::avx2});
    }
#elif defined(__aarch64__)
    if (arm_features().i8mm) found.push_back({"neon_i8mm", tiles::neon_i8mm});
    if (arm_features().dotprod) found.push_back({"neon_dotprod", tiles::neon_dotprod});
#endif
    found.push_back({"plain", dsp::multiply_by_vectors});
    return found;
  }();
  return list;
}

void tiles::finish(const dsp::TileJob& job, const int32_t* sums) {
  dsp::finish(job, reinterpret_cast<const HVX_Vector*>(sums));
}

}  // namespace llada::hexagon

namespace dsp {

void multiply(Format format, const TileJob& job) {
  static const auto best = llada::hexagon::tile_kernels().front().multiply;
  best(format, job);
}

}  // namespace dsp
