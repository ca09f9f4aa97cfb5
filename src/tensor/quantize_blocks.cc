// Source: ggml's quantizers of these types, whose bytes these are (tests/data/quantize_blocks.txt); see fit.h for the
// arithmetic. Each sub-group gets a scale (and a minimum) of its own first. These become small integers with a common
// F16 scale, and the values are rounded once more for the scales that are stored.
#include "tensor/quantize_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/fit.h"
#include "tensor/groups.h"
#include "tensor/half.h"

namespace llada {
namespace {

constexpr int kBlock = 256;

uint8_t byte_of(int value) { return static_cast<uint8_t>(value); }

void store(std::byte* at, uint16_t half) { std::memcpy(at, &half, sizeof half); }

float sum_of_squares(const float* x, int n) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

// An error's weight grows with the value, from the block's own scale of values on.
void weigh(const float* x, const float* weights, float mean_square, int n, float* out) {
  for (int i = 0; i < n; ++i) out[i] = weights[i] * std::sqrt(mean_square + x[i] * x[i]);
}

float sum_of(const float* x, int n) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += x[i];
  return sum;
}

// The types with minimums: Q2_K, Q4_K, Q5_K.
struct WithMinimum {
  int group;           // values of a sub-group
  int top, scale_top;  // of values, of scales and minimums
  ScaleSearch search;  // without weights
  float squares;       // of the mean square in the weights
};
constexpr ScaleSearch kWeightedSearch{-0.9f, 0.05f, 36, false};
constexpr WithMinimum kQ2{16, 3, 15, {-0.5f, 0.1f, 15, true}, 1};
constexpr WithMinimum kQ4{32, 15, 63, {-1.0f, 0.1f, 20, false}, 2};
constexpr WithMinimum kQ5{32, 31, 63, {-0.5f, 0.1f, 15, false}, 2};

struct MinimumBlock {
  uint16_t d, dmin;
  uint8_t scale[16], min[16], q[kBlock];
};

// Integers of up to `top` for the scales or minimums of a block; the result is their common scale.
float round_scales(const float* x, int n, int top, uint8_t* q) {
  const float largest = std::max(0.0f, *std::max_element(x, x + n)), most = static_cast<float>(top);
  const float inverse = largest > 0 ? most / largest : 0.0f;
  for (int j = 0; j < n; ++j) q[j] = std::min(byte_of(nearest(inverse * x[j])), byte_of(top));
  return largest > 0 ? largest / most : 0.0f;
}

MinimumBlock fit_block(const WithMinimum& rule, const float* x, const float* weights) {
  MinimumBlock b{};
  const int groups = kBlock / rule.group;
  float scales[16], mins[16], totals[16], w[32];
  const float mean_square = rule.squares * sum_of_squares(x, kBlock) / static_cast<float>(kBlock);
  for (int j = 0; j < groups; ++j) {
    const float* values = x + j * rule.group;
    if (weights != nullptr) {
      weigh(values, weights + j * rule.group, mean_square, rule.group, w);
    } else if (rule.search.absolute) {
      for (int i = 0; i < rule.group; ++i) w[i] = std::fabs(values[i]);
    } else {
      const float level = std::sqrt(sum_of_squares(values, rule.group) / static_cast<float>(rule.group));
      for (int i = 0; i < rule.group; ++i) w[i] = level + std::fabs(values[i]);
    }
    totals[j] = sum_of(w, rule.group);
    const auto fit = fit_scale_and_min(values, w, rule.group, rule.top,
                                       weights != nullptr ? kWeightedSearch : rule.search, b.q + j * rule.group);
    scales[j] = fit.scale;
    mins[j] = fit.min;
  }
  const auto round = [&](const float* of, uint8_t* q) {
    return float_to_f16(weights != nullptr ? fit_positive(of, totals, groups, rule.scale_top, q)
                                           : round_scales(of, groups, rule.scale_top, q));
  };
  b.d = round(scales, b.scale);
  b.dmin = round(mins, b.min);
  for (int j = 0; j < groups; ++j) {
    const float d = f16_to_float(b.d) * static_cast<float>(b.scale[j]);
    if (d == 0) continue;
    const float min = f16_to_float(b.dmin) * static_cast<float>(b.min[j]);
    for (int i = j * rule.group; i < (j + 1) * rule.group; ++i)
      b.q[i] = byte_of(std::clamp(nearest((x[i] + min) / d), 0, rule.top));
  }
  return b;
}

// Two bits of each value: byte i of half a block has those of values i, i + 32, i + 64, i + 96.
void pack_two_bits(const uint8_t* q, uint8_t* out) {
  for (int i = 0; i < 64; ++i) {
    const uint8_t* v = q + i / 32 * 128 + i % 32;
    out[i] = byte_of((v[0] & 3) | (v[32] & 3) << 2 | (v[64] & 3) << 4 | (v[96] & 3) << 6);
  }
}

void pack_q2_k(const MinimumBlock& b, std::byte* out) {
  uint8_t bytes[80];
  for (int j = 0; j < 16; ++j) bytes[j] = byte_of(b.scale[j] | b.min[j] << 4);
  pack_two_bits(b.q, bytes + 16);
  std::memcpy(out, bytes, sizeof bytes);
  store(out + 80, b.d);
  store(out + 82, b.dmin);
}

// The last four scales and minimums have their top two bits with the first four.
void pack_scales(const MinimumBlock& b, uint8_t* out) {
  for (int j = 0; j < 4; ++j) {
    out[j] = byte_of(b.scale[j] | b.scale[j + 4] >> 4 << 6);
    out[j + 4] = byte_of(b.min[j] | b.min[j + 4] >> 4 << 6);
    out[j + 8] = byte_of((b.scale[j + 4] & 15) | (b.min[j + 4] & 15) << 4);
  }
}

template <class Group>
void pack_nibbles(const MinimumBlock& b, Group& g) {
  g.d = b.d;
  g.dmin = b.dmin;
  pack_scales(b, g.scales);
  for (int i = 0; i < 128; ++i) {
    const uint8_t* v = b.q + i / 32 * 64 + i % 32;
    g.q[i] = byte_of((v[0] & 15) | (v[32] & 15) << 4);
  }
}

void pack_q4_k(const MinimumBlock& b, std::byte* out) {
  GroupQ4_K g{};
  pack_nibbles(b, g);
  std::memcpy(out, &g, sizeof g);
}

void pack_q5_k(const MinimumBlock& b, std::byte* out) {
  GroupQ5_K g{};
  pack_nibbles(b, g);
  for (int i = 0; i < kBlock; ++i) g.high[i % 32] |= byte_of(b.q[i] >> 4 << i / 32);
  std::memcpy(out, &g, sizeof g);
}

// Of values around zero: q for the scales that are stored; d times each scale.
void round_again(const float* x, float d, int scale, int half, int8_t* q) {
  const float step = d * static_cast<float>(scale);
  if (step == 0) return;
  for (int i = 0; i < 16; ++i) q[i] = static_cast<int8_t>(std::clamp(nearest(x[i] / step), -half, half - 1) + half);
}

void quantize_q3_k(const float* x, const float* weights, std::byte* out) {
  float scales[16], totals[16], w[16];
  int8_t q[kBlock], rounded[16] = {};
  const float mean_square = 2 * sum_of_squares(x, kBlock) / static_cast<float>(kBlock);
  for (int j = 0; j < 16; ++j) {
    const float* values = x + 16 * j;
    if (weights == nullptr) {
      scales[j] = fit_symmetric_by_turns(values, 16, 4, q + 16 * j);
      continue;
    }
    weigh(values, weights + 16 * j, mean_square, 16, w);
    totals[j] = sum_of(w, 16);
    scales[j] = fit_symmetric(values, w, 16, 4, q + 16 * j);
  }
  uint16_t d = 0;
  if (weights != nullptr) {
    d = float_to_f16(fit_symmetric(scales, totals, 16, 32, rounded));
  } else if (const float largest = signed_extreme(scales, 16); largest != 0) {
    const float inverse = -32.0f / largest;
    for (int j = 0; j < 16; ++j)
      rounded[j] = static_cast<int8_t>(
          std::clamp(static_cast<int>(static_cast<int8_t>(nearest(inverse * scales[j]))), -32, 31) + 32);
    d = float_to_f16(1 / inverse);
  }
  uint8_t bytes[108] = {};
  uint8_t *high = bytes, *packed = bytes + 96, levels[kBlock];
  for (int j = 0; j < 16; ++j) {
    packed[j % 8] |= byte_of((rounded[j] & 15) << j / 8 * 4);
    packed[8 + j % 4] |= byte_of(rounded[j] >> 4 << j / 4 * 2);
    round_again(x + 16 * j, f16_to_float(d), rounded[j] - 32, 4, q + 16 * j);
  }
  for (int i = 0; i < kBlock; ++i) {
    levels[i] = byte_of(q[i]);
    high[i % 32] |= byte_of(q[i] >> 2 << i / 32);
  }
  pack_two_bits(levels, bytes + 32);
  std::memcpy(out, bytes, sizeof bytes);
  store(out + 108, d);
}

void quantize_q6_k(const float* x, const float* weights, std::byte* out) {
  GroupQ6_K g{};
  float scales[16];
  int8_t q[kBlock];
  for (int j = 0; j < 16; ++j)
    scales[j] = fit_symmetric(x + 16 * j, weights != nullptr ? weights + 16 * j : nullptr, 16, 32, q + 16 * j);
  const float largest = signed_extreme(scales, 16);
  if (std::fabs(largest) >= kNoScale) {
    const float inverse = -128.0f / largest;
    g.d = float_to_f16(1 / inverse);
    for (int j = 0; j < 16; ++j) {
      g.scales[j] = static_cast<int8_t>(std::min(127, nearest(inverse * scales[j])));
      round_again(x + 16 * j, f16_to_float(g.d), g.scales[j], 32, q + 16 * j);
    }
    for (int half = 0; half < 2; ++half)
      for (int i = 0; i < 32; ++i) {
        const int8_t* v = q + 128 * half + i;
        g.low[64 * half + i] = byte_of((v[0] & 15) | (v[64] & 15) << 4);
        g.low[64 * half + 32 + i] = byte_of((v[32] & 15) | (v[96] & 15) << 4);
        g.high[32 * half + i] = byte_of(v[0] >> 4 | v[32] >> 4 << 2 | v[64] >> 4 << 4 | v[96] >> 4 << 6);
      }
  }
  std::memcpy(out, &g, sizeof g);
}

// The nearest of the 16 levels, the higher one in the middle of two.
int nearest_level(float x) {
  if (x <= kFourBits[0]) return 0;
  if (!(x < kFourBits[15])) return 15;
  int low = 0, high = 15;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (x < kFourBits[middle] ? high : low) = middle;
  }
  return x - kFourBits[low] < kFourBits[high] - x ? low : high;
}

// The scale for 32 values in levels.
float fit_levels(const float* x, const float* weights, float mean_square) {
  const float extreme = signed_extreme(x, 32);
  if (std::fabs(extreme) < kNoScale) return 0;
  float w[32];
  if (weights != nullptr) {
    weigh(x, weights, mean_square, 32, w);
  } else {
    for (int i = 0; i < 32; ++i) w[i] = x[i] * x[i];
  }
  float scale = 0, best = 0, xq = 0, qq = 0;
  const auto sums_of = [&](float inverse) {
    xq = qq = 0;
    for (int i = 0; i < 32; ++i) {
      const auto level = static_cast<float>(kFourBits[nearest_level(inverse * x[i])]);
      xq += w[i] * level * x[i];
      qq += w[i] * level * level;
    }
  };
  constexpr int kTries = 7;
  sums_of(1 / (-extreme / static_cast<float>(kFourBits[0])));
  scale = qq > 0 ? xq / qq : 0.0f;
  best = scale * xq;
  for (int step = -kTries; step <= kTries; ++step) {
    sums_of(static_cast<float>(step + kFourBits[0]) / extreme);
    if (!(qq > 0 && xq * xq > best * qq)) continue;
    scale = xq / qq;
    best = scale * xq;
  }
  return scale;
}

void pack_levels(const float* x, float scale, std::byte* out) {
  const float inverse = scale != 0 ? 1 / scale : 0.0f;
  for (int i = 0; i < 16; ++i)
    out[i] = static_cast<std::byte>(nearest_level(inverse * x[i]) | nearest_level(inverse * x[i + 16]) << 4);
}

void quantize_iq4_nl(const float* x, const float* weights, std::byte* out) {
  const float scale = fit_levels(x, weights, sum_of_squares(x, 32) * (2.0f / 32));
  store(out, float_to_f16(scale));
  pack_levels(x, scale, out + 2);
}

void quantize_iq4_xs(const float* x, const float* weights, std::byte* out) {
  float scales[8];
  const float mean_square = sum_of_squares(x, kBlock) * (2.0f / kBlock);
  for (int j = 0; j < 8; ++j)
    scales[j] = fit_levels(x + 32 * j, weights != nullptr ? weights + 32 * j : nullptr, mean_square);
  const float d = -signed_extreme(scales, 8) / 32, inverse = d != 0 ? 1 / d : 0.0f;
  uint16_t high = 0;
  uint8_t low[4] = {};
  for (int j = 0; j < 8; ++j) {
    const int l = std::clamp(nearest(inverse * scales[j]), -32, 31);
    pack_levels(x + 32 * j, d * static_cast<float>(l), out + 8 + 16 * j);
    low[j / 2] |= byte_of(((l + 32) & 15) << j % 2 * 4);
    high |= static_cast<uint16_t>((l + 32) >> 4 << 2 * j);
  }
  store(out, float_to_f16(d));
  store(out + 2, high);
  std::memcpy(out + 4, low, sizeof low);
}

}  // namespace

bool can_quantize_block(DType type) { return type >= DType::Q4_K && type <= DType::IQ4_XS; }

void quantize_block(DType type, const float* x, const float* weights, std::byte* out) {
  switch (type) {
    case DType::Q2_K:
      return pack_q2_k(fit_block(kQ2, x, weights), out);
    case DType::Q4_K:
      return pack_q4_k(fit_block(kQ4, x, weights), out);
    case DType::Q5_K:
      return pack_q5_k(fit_block(kQ5, x, weights), out);
    case DType::Q3_K:
      return quantize_q3_k(x, weights, out);
    case DType::Q6_K:
      return quantize_q6_k(x, weights, out);
    case DType::IQ4_NL:
      return quantize_iq4_nl(x, weights, out);
    case DType::IQ4_XS:
      return quantize_iq4_xs(x, weights, out);
    default:
      break;
  }
}

}  // namespace llada
