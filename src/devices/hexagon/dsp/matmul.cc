#include "devices/hexagon/dsp/matmul.h"

#include "devices/hexagon/dsp/float_math.h"
#include "devices/hexagon/dsp/tile.h"

namespace dsp {

uint32_t tile_bytes(Format format, uint32_t inputs) {
  const uint32_t vectors = format == Format::q4 ? 4 : format == Format::q8 ? 8 : 16;
  return 128 + blocks_of(inputs) / 2 * (2 * vectors + 1) * 128;
}

void finish(const TileJob& job, const HVX_Vector* sums) {
  const auto& head = *reinterpret_cast<const RowGroup*>(job.group);
  const HVX_Vector exponents = *reinterpret_cast<const HVX_Vector*>(job.tile);
  for (uint32_t r = 0; r < job.rows; ++r)
    store_floats(job.y + static_cast<uint64_t>(r) * job.stride,
                 scaled_floats(sums[r], Q6_Vw_vadd_VwVw(exponents, Q6_V_vsplat_R(head.exponent[r]))), job.columns);
}

void multiply_tile(Format format, const TileJob& job) {
  switch (format) {
    case Format::q4: return multiply_q4(job);
    case Format::q8: return multiply_q8(job);
    case Format::f16: return multiply_f16(job);
  }
}

void multiply_f32(const float* weights, const float* x, uint32_t rows, uint32_t inputs, uint32_t n0, uint32_t n1,
                  float* y, uint32_t stride) {
  for (uint32_t n = n0; n < n1; ++n) {
    const float* w = weights + static_cast<uint64_t>(n) * inputs;
    for (uint32_t r = 0; r < rows; ++r) {
      const float* a = x + static_cast<uint64_t>(r) * inputs;
      float sum[8] = {};
      for (uint32_t i = 0; i < inputs; ++i) sum[i % 8] = fma(w[i], a[i], sum[i % 8]);
      y[static_cast<uint64_t>(r) * stride + n] =
          ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
    }
  }
}

}  // namespace dsp
