#include "devices/hexagon/dsp/rows.h"

#include "devices/hexagon/dsp/float_math.h"
#include "devices/hexagon/wire.h"

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

namespace {

uint16_t half_at(const uint8_t* bytes) { return static_cast<uint16_t>(bytes[0] | bytes[1] << 8); }
constexpr uint32_t kQ8 = 34, kQ4 = 18, kGroup = 32;  // bytes of a stored group, its elements

}  // namespace

uint32_t stored_row_bytes(uint32_t layout, uint32_t n) {
  switch (layout) {
    case WIRE_STORED_F32:
      return 4 * n;
    case WIRE_STORED_F16:
    case WIRE_STORED_BF16:
      return 2 * n;
    case WIRE_STORED_Q8_0:
      return n / kGroup * kQ8;
    default:
      return n / kGroup * kQ4;
  }
}

void stored_row(uint32_t layout, const uint8_t* table, uint32_t index, uint32_t n, float* y) {
  const uint8_t* row = table + static_cast<uint64_t>(index) * stored_row_bytes(layout, n);
  switch (layout) {
    case WIRE_STORED_F32:
      for (uint32_t i = 0; i < n; ++i) y[i] = reinterpret_cast<const float*>(row)[i];
      return;
    case WIRE_STORED_F16:
      for (uint32_t i = 0; i < n; ++i) y[i] = half_to_float(half_at(row + 2 * i));
      return;
    case WIRE_STORED_BF16:
      for (uint32_t i = 0; i < n; ++i) y[i] = float_of(static_cast<uint32_t>(half_at(row + 2 * i)) << 16);
      return;
    case WIRE_STORED_Q8_0:
      for (uint32_t i = 0; i < n; ++i) {
        const uint8_t* group = row + i / kGroup * kQ8;
        y[i] = half_to_float(half_at(group)) * static_cast<float>(static_cast<int8_t>(group[2 + i % kGroup]));
      }
      return;
    default:
      for (uint32_t i = 0; i < n; ++i) {
        const uint8_t* group = row + i / kGroup * kQ4;
        const uint32_t at = i % kGroup;
        const int32_t q = at < 16 ? group[2 + at] & 0xf : group[2 + at - 16] >> 4;
        y[i] = half_to_float(half_at(group)) * static_cast<float>(q - 8);
      }
  }
}

void store_half(const float* x, uint32_t n, uint16_t* y) {
  for (uint32_t i = 0; i < n; ++i) y[i] = float_to_half(x[i]);
}

void load_half(const uint16_t* x, uint32_t n, float* y) {
  for (uint32_t i = 0; i < n; ++i) y[i] = half_to_float(x[i]);
}

}  // namespace dsp
