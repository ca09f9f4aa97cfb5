// Weights and activations as the outer products read them (sme.h), made by baseline NEON.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/neon_vector.h"
#include "kernels/sme.h"
#include "tensor/half.h"
#include "tensor/view.h"

namespace llada::kernels::sme {
namespace {

// One column's quants of an input pair and of its group.
void put_pairs(const GroupQ4_0& group, int64_t pitch, uint8_t* to) {
  const auto nibble = [&](int64_t i) { return (i < 16 ? group.q[i] & 15 : group.q[i - 16] >> 4) ^ 8; };
  for (int64_t i = 0; i < kGroup; i += 2, to += pitch) *to = static_cast<uint8_t>(nibble(i) | nibble(i + 1) << 4);
}
void put_pairs(const GroupQ8_0& group, int64_t pitch, uint8_t* to) {
  for (int64_t i = 0; i < kGroup; i += 2, to += pitch) std::memcpy(to, group.q + i, 2);
}

template <class Group, DType kType>
void pack_columns(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  constexpr int kQuantUnit = kType == DType::Q4_0 ? 12 : 0;
  constexpr int kLimit = kType == DType::Q4_0 ? 0 : 8;  // 8 * 4096 * 2^0 and 128 * 2^8 are within F16's range
  const int64_t k = weight.shape.columns(), groups = k / kGroup, n = weight.shape.rows();
  for (int64_t c = n0; c < n1; ++c) {
    const int64_t first = c / kPanel * kPanel, width = std::min(kPanel, n - first), i = c - first;
    auto* quants = reinterpret_cast<uint8_t*>(packed + first * column_bytes(kType, k));
    auto* scales = reinterpret_cast<uint16_t*>(quants + width * quant_bytes(kType, k));
    auto* exponents = reinterpret_cast<int8_t*>(scales + width * groups);
    const auto* group = reinterpret_cast<const Group*>(weight.row(c));
    float largest = 0;
    for (int64_t g = 0; g < groups; ++g)
      if (const float d = std::fabs(f16_to_float(group[g].d)); std::isfinite(d)) largest = std::max(largest, d);
    int above = kLimit;  // the least power of two above the largest scale
    if (largest > 0) std::frexp(largest, &above);
    const int exponent = kLimit - above;
    exponents[i] = static_cast<int8_t>(-exponent - kQuantUnit);
    for (int64_t g = 0; g < groups; ++g) {
      scales[g * width + i] = float_to_f16(std::ldexp(f16_to_float(group[g].d), exponent));
      put_pairs(group[g], width * pair_bytes(kType), quants + (g * 16 * width + i) * pair_bytes(kType));
    }
  }
}

}  // namespace

void pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  if (weight.type == DType::Q4_0) return pack_columns<GroupQ4_0, DType::Q4_0>(weight, n0, n1, packed);
  pack_columns<GroupQ8_0, DType::Q8_0>(weight, n0, n1, packed);
}

void quantize_row(const float* x, int64_t k, int64_t rows, int64_t r, std::byte* activations) {
  using namespace neon;
  const int64_t first = r / kBlock * kBlock, height = std::min(kBlock, rows - first);
  auto* to = reinterpret_cast<uint32_t*>(activations) + first * k / 2 + (r - first);  // pairs, `height` apart
  float& unit = reinterpret_cast<float*>(activations + units_offset(rows, k))[r];
  const auto magnitude = [&](int64_t from, int64_t count) {
    float32x4_t largest = vdupq_n_f32(0);
    for (int64_t i = from; i < from + count; i += 4) largest = vmaxq_f32(largest, vabsq_f32(vld1q_f32(x + i)));
    return vmaxvq_f32(largest);  // NaN stays
  };
  constexpr float kLeast = 0x1p-120f;  // kernels.h: groups below count as zero
  const float largest = magnitude(0, k);
  int exponent = 0;
  const bool finite = largest < std::numeric_limits<float>::infinity();
  if (finite && largest > kLeast) std::frexp(largest / 127.0f, &exponent);
  exponent -= 8;  // scales are at most 2^8, values 127 times that
  unit = finite ? std::ldexp(1.0f, exponent) : std::numeric_limits<float>::quiet_NaN();
  const float up = std::ldexp(1.0f, -exponent / 2), further = std::ldexp(1.0f, -exponent - -exponent / 2);
  for (int64_t g = 0; g < k; g += kGroup) {
    const float max = finite ? magnitude(g, kGroup) : 0;
    const bool zero = !(max > kLeast);
    const float inverse = zero ? 0.0f : 127.0f / max, scale = zero ? 0.0f : max / 127.0f * up * further;
    for (int64_t i = g; i < g + kGroup; i += 4, to += 2 * height) {
      const float32x4_t quants = vrndnq_f32(vmulq_n_f32(finite ? vld1q_f32(x + i) : vdupq_n_f32(0), inverse));
      const uint32x2_t pairs = vreinterpret_u32_f16(vcvt_f16_f32(vmulq_n_f32(quants, scale)));
      to[0] = vget_lane_u32(pairs, 0);
      to[height] = vget_lane_u32(pairs, 1);
    }
  }
}

}  // namespace llada::kernels::sme
