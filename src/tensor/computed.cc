// A type goes to the narrowest one that holds its integers, and the integers fill the eight bits where there are eight.
// Kernels may round the sums of eight bits to multiples of 16: halves up, which is no bias as long as the sums have all
// remainders. So integers are multiplied by odd numbers.
#include "tensor/computed.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "tensor/groups.h"
#include "tensor/half.h"

namespace llada {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// value / step as a whole number in +-127; 0 where there is no step.
int8_t steps(float value, float step) {
  return static_cast<int8_t>(step > 0 ? std::clamp(std::nearbyint(value / step), -127.0f, 127.0f) : 0.0f);
}

// Halves with scales of their own: one of them keeps its integers, times as much as fits, and the other is rounded to
// their step.
GroupQ8_0 two_scales(const QuantGroup& g) {
  int largest[2] = {};
  for (int i = 0; i < 32; ++i) largest[i / 16] = std::max(largest[i / 16], std::abs(static_cast<int>(g.q[i])));
  const float first = std::fabs(g.scale[0]) * static_cast<float>(largest[0]);
  const float second = std::fabs(g.scale[1]) * static_cast<float>(largest[1]);
  const int wider = second > first ? 1 : 0;
  const float step = std::fabs(g.scale[wider]) / static_cast<float>(127 / std::max(1, largest[wider]));
  GroupQ8_0 out{float_to_f16(std::isfinite(first + second) ? step : kNan), {}};
  for (int i = 0; i < 32; ++i) out.q[i] = steps(g.scale[i / 16] * static_cast<float>(g.q[i]), f16_to_float(out.d));
  return out;
}

GroupQ8_0 to_q8_0(const QuantGroup& g) {
  if (std::isfinite(g.scale[0] + g.scale[1]) && g.scale[0] != g.scale[1]) return two_scales(g);
  const auto [low, high] = std::minmax_element(g.q, g.q + 32);
  int factor = 1;  // as long as F16 keeps eleven bits of the scale
  while ((factor + 1) * *high <= 127 && (factor + 1) * *low >= -128 &&
         std::fabs(g.scale[0]) >= 0x1p-14f * (factor + 1) && factor < 127)
    ++factor;
  if (factor > 2 && factor % 2 == 0) --factor;
  const float scale = g.scale[0] / static_cast<float>(factor);
  GroupQ8_0 out{float_to_f16(std::isfinite(g.scale[0] + g.scale[1]) ? scale : kNan), {}};
  for (int i = 0; i < 32; ++i) out.q[i] = static_cast<int8_t>(g.q[i] * factor);
  return out;
}

GroupQ8_M to_q8_m(DType type, const QuantGroup& g) {
  GroupQ8_M out{g.scale[0], g.offset[0], {}};
  if (type != DType::Q2_K) {
    constexpr int factor = 7, centre = 16;
    out.d /= static_cast<float>(factor);
    out.m += g.scale[0] * static_cast<float>(centre);  // without it sums of quants and of offsets would cancel
    for (int i = 0; i < 32; ++i) out.q[i] = static_cast<int8_t>((g.q[i] - centre) * factor);
    return out;
  }
  float values[32];
  for (int i = 0; i < 32; ++i) values[i] = g.scale[i / 16] * static_cast<float>(g.q[i]) + g.offset[i / 16];
  const auto [low, high] = std::minmax_element(values, values + 32);
  const float sums = g.scale[0] + g.scale[1] + g.offset[0] + g.offset[1];
  out.d = std::isfinite(sums) ? (*high - *low) / 254 : kNan;
  out.m = (*high + *low) / 2;
  for (int i = 0; i < 32; ++i) out.q[i] = steps(values[i] - out.m, out.d);
  return out;
}

float block_scale(DType type, const std::byte* block) {
  const auto bits = [&](int64_t at) {
    uint16_t b;
    std::memcpy(&b, block + at, 2);
    return b;
  };
  if (type == DType::Q3_K) return f16_to_float(bits(108));
  int d = 0;
  for (int i = 0; i < 4; ++i) d |= bits(48 + 2 * i) >> 12 << 4 * i;
  return f16_to_float(static_cast<uint16_t>(d));
}

// Sub-groups of 16 with whole numbers as scales. Integers are even where F16 has half of the block's scale, since
// kernels may round the sums of six bits to even numbers; the scales are as large as F16 lets them be, for the same
// reason.
GroupQ6_K to_q6_k(DType type, const std::byte* row, int64_t block) {
  QuantGroup groups[8];
  float d = block_scale(type, row + block * traits(type).bytes) * (type == DType::IQ1_M ? 0.125f : 1.0f);
  int scales[16], largest = 0;
  for (int i = 0; i < 16; ++i) {
    if (i % 2 == 0) groups[i / 2] = read_group(type, row, block * 8 + i / 2);
    const float whole = groups[i / 2].scale[i % 2] / d;
    scales[i] = std::isfinite(whole) ? static_cast<int>(whole) : 1;
    largest = std::max(largest, std::abs(scales[i]));
  }
  const auto halve = [&d] {
    const bool kept = f16_to_float(float_to_f16(d / 2)) == d / 2;
    if (kept) d /= 2;
    return kept;
  };
  const int factor = halve() ? 2 : 1;
  int more = 1;
  while (largest > 0 && 2 * more * largest <= 127 && halve()) more *= 2;
  GroupQ6_K out{{}, {}, {}, float_to_f16(d)};
  for (int i = 0; i < 16; ++i) out.scales[i] = static_cast<int8_t>(scales[i] * more);
  for (int i = 0; i < 256; ++i) {
    const int j = i / 32, lane = i % 32, q = groups[j].q[lane] * factor + 32;
    out.low[j / 4 * 64 + j % 2 * 32 + lane] |= static_cast<uint8_t>((q & 15) << (j % 4 < 2 ? 0 : 4));
    out.high[j / 4 * 32 + lane] |= static_cast<uint8_t>(q >> 4 << 2 * (j % 4));
  }
  return out;
}

GroupQ4_0 to_q4_0(const QuantGroup& g) {
  GroupQ4_0 out{float_to_f16(g.scale[0]), {}};
  for (int i = 0; i < 16; ++i) out.q[i] = static_cast<uint8_t>((g.q[i] + 8) | (g.q[i + 16] + 8) << 4);
  return out;
}

}  // namespace

DType computed_type(DType type) {
  switch (type) {
    case DType::Q5_0:
    case DType::IQ4_NL:
    case DType::IQ4_XS:
    case DType::IQ2_XXS:
    case DType::IQ2_XS:
    case DType::IQ2_S:
    case DType::IQ3_XXS:
    case DType::IQ3_S:
    case DType::IQ1_S:
    case DType::MXFP4:
    case DType::NVFP4:
      return DType::Q8_0;
    case DType::Q5_1:
    case DType::Q5_K:
    case DType::Q2_K:
      return DType::Q8_M;
    case DType::Q3_K:
    case DType::IQ1_M:
      return DType::Q6_K;
    case DType::TQ1_0:
    case DType::TQ2_0:
      return DType::Q4_0;
    default:
      return type;
  }
}

double computed_error(DType type) {
  switch (type) {
    case DType::Q5_0:
    case DType::MXFP4:
    case DType::IQ4_XS:
    case DType::IQ2_XXS:
    case DType::IQ3_XXS:
    case DType::IQ3_S:
    case DType::IQ1_S:
    case DType::IQ1_M:  // where an eighth of a block's scale is no F16
      return 0x1p-11;
    case DType::IQ2_XS:
    case DType::IQ2_S:
    case DType::NVFP4:
    case DType::Q2_K:
      return 0.0065;
    case DType::Q5_1:
    case DType::Q5_K:
      return 1e-6;
    default:
      return 0;
  }
}

GroupQ8_0 q8_0_of_float4(const uint8_t* codes, float first_scale, float second_scale) {
  QuantGroup g{{first_scale / 2, second_scale / 2}, {}, {}};
  for (int i = 0; i < 32; ++i) g.q[i] = kFloat4[codes[i] & 15];
  return to_q8_0(g);
}

void convert_row(DType type, const std::byte* src, std::byte* dst, int64_t n) {
  LLADA_CHECK(n % traits(type).elements == 0 && computed_type(type) != type);
  const auto put = [&](const auto& group) {
    std::memcpy(dst, &group, sizeof group);
    dst += sizeof group;
  };
  if (computed_type(type) == DType::Q6_K) {
    for (int64_t block = 0; block < n / 256; ++block) put(to_q6_k(type, src, block));
    return;
  }
  for (int64_t i = 0; i < n / 32; ++i) {
    const QuantGroup g = read_group(type, src, i);
    if (computed_type(type) == DType::Q8_0) put(to_q8_0(g));
    if (computed_type(type) == DType::Q8_M) put(to_q8_m(type, g));
    if (computed_type(type) == DType::Q4_0) put(to_q4_0(g));
  }
}

}  // namespace llada
