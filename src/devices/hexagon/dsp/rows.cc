#include "devices/hexagon/dsp/rows.h"

#include "devices/hexagon/dsp/float_math.h"

namespace dsp {

void rms_norm(const float* x, const float* weight, float epsilon, uint32_t n, float* y) {
  // Where squares leave the range of float, values are brought near 1 first. Squares of small values may vanish
  // beside an epsilon.
  uint32_t top = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t magnitude = bits_of(x[i]) & 0x7fffffffu;
    top = magnitude > top ? magnitude : top;
  }
  const uint32_t field = top >> 23;
  const bool extreme = field > 127 + 55 || (field < 127 - 55 && epsilon == 0);
  const uint32_t shifted = field < 3 ? 3 : field > 251 ? 251 : field;
  const float down = extreme ? float_of((254 - shifted) << 23) : 1.0f;
  float sum[8] = {};
  for (uint32_t i = 0; i < n; ++i) {
    const float v = x[i] * down;
    sum[i % 8] = fma(v, v, sum[i % 8]);
  }
  const float mean =
      (((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]))) / static_cast<float>(n);
  const float scale = extreme ? inverse_sqrt(fma(epsilon * down, down, mean)) * down : inverse_sqrt(mean + epsilon);
  for (uint32_t i = 0; i < n; ++i) y[i] = x[i] * scale * weight[i];
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
  for (uint32_t i = 0; i < n; ++i) {
    const float g = gate[i], e = exponential(g < 0 ? g : -g);  // of -|g|, so that nothing overflows
    y[i] = (g < 0 ? e * g : g) / (1.0f + e) * up[i];
  }
}

void add(const float* x, uint32_t n, float* y) {
  for (uint32_t i = 0; i < n; ++i) y[i] += x[i];
}

void guide(const float* conditional, const float* unconditional, float scale, uint32_t n, float* y) {
  for (uint32_t i = 0; i < n; ++i) y[i] = unconditional[i] + scale * (conditional[i] - unconditional[i]);
}

void store_half(const float* x, uint32_t n, uint16_t* y) {
  for (uint32_t i = 0; i < n; ++i) y[i] = float_to_half(x[i]);
}

void load_half(const uint16_t* x, uint32_t n, float* y) {
  for (uint32_t i = 0; i < n; ++i) y[i] = half_to_float(x[i]);
}

}  // namespace dsp
