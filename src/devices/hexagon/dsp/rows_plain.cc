#include "devices/hexagon/dsp/rows_plain.h"

#include "devices/hexagon/dsp/fixed_math.h"

namespace dsp::plain {

uint64_t squares(const float* x, uint32_t n, int32_t exponent) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const int64_t q = fixed_q(x[i], exponent);
    sum += static_cast<uint64_t>(q * q) >> 16;
  }
  return sum;
}

float rms_scale(uint64_t squares, int32_t exponent, float epsilon, uint32_t n) {
  // The mean is m * 2^(2 half). Where that leaves the range of float, both are divided by 2^(2 half) first.
  const float m = static_cast<float>(squares) / static_cast<float>(n);
  const int32_t half = exponent - 147;
  if (half > 30 || (half < -60 && epsilon == 0))
    return times_power(inverse_sqrt(m + times_power(times_power(epsilon, -half), -half)), -half);
  return inverse_sqrt(times_power(times_power(m, half), half) + epsilon);
}

void apply_norm(const float* x, const float* weight, float scale, uint32_t n, float* y) {
  for (uint32_t i = 0; i < n; ++i) y[i] = x[i] * scale * weight[i];
}

void rms_norm(const float* x, const float* weight, float epsilon, uint32_t n, float* y) {
  uint32_t top = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t magnitude = bits_of(x[i]) & kMagnitude;
    top = magnitude > top ? magnitude : top;
  }
  if (top >= kInfinityBits) {
    for (uint32_t i = 0; i < n; ++i) y[i] = kInfinity;
    return;
  }
  const int32_t exponent = exponent_of(top);
  apply_norm(x, weight, rms_scale(squares(x, n, exponent), exponent, epsilon, n), n, y);
}

void rope(float* x, const float* table, uint32_t heads, uint32_t head_dim, uint32_t rotary, bool adjacent) {
  const uint32_t half = rotary / 2;
  for (uint32_t h = 0; h < heads; ++h, x += head_dim)
    for (uint32_t j = 0; j < half; ++j) {
      float& first = adjacent ? x[2 * j] : x[j];
      float& second = adjacent ? x[2 * j + 1] : x[j + half];
      const float p = first, q = second, c = table[j], s = table[half + j];
      first = p * c - q * s;
      second = q * c + p * s;
    }
}

void swiglu(const float* gate, const float* up, uint32_t n, float* y) {
  for (uint32_t i = 0; i < n; ++i) y[i] = sigmoid(gate[i]) * gate[i] * up[i];
}

void add(const float* x, uint32_t n, float* y) {
  for (uint32_t i = 0; i < n; ++i) y[i] += x[i];
}

void guide(const float* conditional, const float* unconditional, float scale, uint32_t n, float* y) {
  for (uint32_t i = 0; i < n; ++i) y[i] = unconditional[i] + scale * (conditional[i] - unconditional[i]);
}

void scale(const float* x, float factor, uint32_t n, float* y) {
  for (uint32_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}

void store_half(const float* x, uint32_t n, uint16_t* y) {
  for (uint32_t i = 0; i < n; ++i) y[i] = float_to_half(x[i]);
}

}  // namespace dsp::plain
