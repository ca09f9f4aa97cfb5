#include "devices/hexagon/dsp/matmul.h"

#include "devices/hexagon/dsp/float_math.h"
#include "devices/hexagon/dsp/tile.h"

namespace dsp {

uint32_t tile_bytes(Format format, uint32_t inputs) {
  const uint32_t vectors = format == Format::q4 ? 4 : format == Format::q8 ? 8 : 16;
  return 128 + blocks_of(inputs) / 2 * (2 * vectors + 1) * 128;
}

namespace {

// Four rows at a time, so that one row's latencies hide behind another's work.
constexpr uint32_t kTogether = 4;

DSP_INLINE void finish_rows(const TileJob& job, const HVX_Vector* sums, uint32_t first, HVX_Vector exponents) {
  const auto& head = *reinterpret_cast<const RowGroup*>(job.group);
  HVX_Vector bits[kTogether];
#pragma clang loop unroll(full)
  for (uint32_t r = 0; r < kTogether; ++r)
    bits[r] = scaled_floats(sums[first + r], Q6_Vw_vadd_VwVw(exponents, Q6_V_vsplat_R(head.exponent[first + r])));
  float* y = job.y + static_cast<uint64_t>(first) * job.stride;
  if (job.columns == kLanes && first + kTogether <= job.rows) {
#pragma clang loop unroll(full)
    for (uint32_t r = 0; r < kTogether; ++r) *reinterpret_cast<HVX_UVector*>(y + r * job.stride) = bits[r];
    return;
  }
  for (uint32_t r = 0; r < kTogether; ++r)
    if (first + r < job.rows) store_floats(y + r * job.stride, bits[r], job.columns);
}

}  // namespace

void finish(const TileJob& job, const HVX_Vector* sums) {
  const HVX_Vector exponents = *reinterpret_cast<const HVX_Vector*>(job.tile);
  for (uint32_t first = 0; first < job.rows; first += kTogether) finish_rows(job, sums, first, exponents);
}

void multiply_tile(Format format, const TileJob& job) {
  switch (format) {
    case Format::q4:
      return multiply_q4(job);
    case Format::q8:
      return multiply_q8(job);
    case Format::f16:
      return multiply_f16(job);
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
