// The arithmetic of the DSP's matrix kernels a second time, in plain C++ over the packed bytes as wire.h lays them out
// and the formulas of src/devices/hexagon/dsp/activations.h: what the kernels must match bit for bit. Products are
// taken in 64 bits and checked against the 32 that the kernels have.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "devices/hexagon/wire.h"

namespace llada::hexagon {

// One output of a packed matrix.
struct PackedOutput {
  int32_t exponent = 0;
  std::vector<int> scales;  // per block of 32 inputs
  std::vector<int> quants;  // per input

  double value(size_t input) const {
    return std::ldexp(static_cast<double>(scales[input / 32]) * quants[input], exponent - 15);
  }
};

inline PackedOutput unpack_output(uint32_t layout, const std::byte* packed, int64_t n, int64_t inputs) {
  const int64_t vectors = layout == WIRE_TILE_Q4_0 ? 4 : layout == WIRE_TILE_Q8_0 ? 8 : 16;
  const int64_t pair_bytes = (2 * vectors + 1) * 128, blocks = (inputs + 31) / 32, lane = n % 32;
  const auto* tile = reinterpret_cast<const uint8_t*>(packed) + n / 32 * (128 + (blocks + 1) / 2 * pair_bytes);
  PackedOutput out;
  std::memcpy(&out.exponent, tile + 4 * lane, 4);
  for (int64_t b = 0; b < blocks; ++b) {
    const uint8_t* pair = tile + 128 + b / 2 * pair_bytes;
    const uint8_t* block = pair + b % 2 * vectors * 128;
    int16_t scale = 0;
    std::memcpy(&scale, pair + 2 * vectors * 128 + 2 * (b % 2 * 32 + lane), 2);
    out.scales.push_back(scale);
    for (int64_t i = 0; i < 32; ++i) {
      const auto at = [&](int64_t vector) { return int{block[vector * 128 + lane * 4 + i % 4]}; };
      if (layout == WIRE_TILE_Q4_0)
        out.quants.push_back((i % 8 < 4 ? at(i / 8) & 15 : at(i / 8) >> 4) - 8);
      else if (layout == WIRE_TILE_Q8_0)
        out.quants.push_back(at(i / 4) - 128);
      else
        out.quants.push_back((at(i / 4) - 128) * 256 + at(8 + i / 4));
    }
  }
  return out;
}

// One row's activations: quants, and per block mantissa and right shift of the scale.
struct QuantizedRow {
  std::vector<int> quants, mantissas, shifts;
  int bias = 0, exponent = 0;
  std::vector<double> steps;  // scale per block, exact
};

inline QuantizedRow quantize_row_like_dsp(uint32_t layout, const float* x, int64_t inputs) {
  const bool wide = layout == WIRE_TILE_F16;
  const int64_t blocks = (inputs / 32 + 1) / 2 * 2;  // the padding block counts towards the shift
  QuantizedRow row;
  std::vector<float> inverse;
  std::vector<int> exponents;
  int top = -1000;
  for (int64_t b = 0; b < inputs / 32; ++b) {
    float max = 0;
    for (int64_t i = 0; i < 32; ++i) max = std::max(max, std::fabs(x[b * 32 + i]));
    float scale = 0;
    int exponent = 0;
    if (max > 0x1p-120f) {
      if (!wide) {
        scale = max / 127.0f;
      } else {
        int e = 0;
        const float m = std::frexp(max, &e);  // max = m * 2^e, m in [1/2, 1)
        const int ceiling = m == 0.5f ? e - 1 : e;
        if (ceiling - 14 >= -126) scale = std::ldexp(1.0f, ceiling - 14);
      }
    }
    int mantissa = 0;
    if (scale != 0) {
      const double fraction = std::frexp(static_cast<double>(scale), &exponent);
      mantissa = static_cast<int>(std::floor(std::ldexp(fraction, 15) + 0.5));
      if (mantissa == 32768) mantissa = 16384, ++exponent;
      top = std::max(top, exponent);
    }
    row.mantissas.push_back(mantissa);
    exponents.push_back(exponent);
    row.steps.push_back(scale);
    inverse.push_back(scale == 0 ? 0 : wide ? 1.0f / scale : 127.0f / max);
  }
  int base = 0;
  while (blocks > int64_t{2} << base) ++base;
  int floored = 0;
  for (size_t b = 0; b < row.mantissas.size(); ++b) {
    int shift = base + top - exponents[b];
    if (row.mantissas[b] == 0 || shift > 31) row.mantissas[b] = 0, shift = 0, inverse[b] = 0;
    row.shifts.push_back(shift);
    if (row.mantissas[b] != 0 && (shift > 0 || layout != WIRE_TILE_Q4_0)) ++floored;
    for (size_t i = 0; i < 32; ++i) row.quants.push_back(static_cast<int>(std::nearbyint(x[b * 32 + i] * inverse[b])));
  }
  row.bias = floored / 2;
  row.exponent = base + top + (layout == WIRE_TILE_Q4_0 ? -15 : layout == WIRE_TILE_Q8_0 ? 4 - 15 : 19 - 15);
  return row;
}

inline float scaled_to_float(int64_t sum, int exponent) {
  if (sum == 0) return 0;
  const double value = std::ldexp(static_cast<double>(sum), exponent);  // exact
  // One rounding to 24 digits, wherever the exponent is; then below normal numbers zero, above them infinity.
  int e = 0;
  const double digits = std::nearbyint(std::ldexp(std::frexp(value, &e), 24));
  const double rounded = std::ldexp(digits, e - 24);
  std::frexp(value, &e);
  if (e - 1 < -126) return std::copysign(0.0f, static_cast<float>(rounded));
  if (std::fabs(rounded) >= 0x1p128) return std::copysign(INFINITY, static_cast<float>(rounded));
  return static_cast<float>(rounded);
}

// y of one output and one row.
inline float product_like_dsp(uint32_t layout, const PackedOutput& w, const QuantizedRow& a) {
  const auto check = [](int64_t value) {
    if (value < INT32_MIN || value > INT32_MAX) throw std::runtime_error("a sum leaves 32 bits");
    return value;
  };
  int64_t sum = a.bias;
  for (size_t b = 0; b < a.mantissas.size(); ++b) {
    int64_t dot = 0;
    for (size_t i = b * 32; i < (b + 1) * 32; ++i) dot += int64_t{w.quants[i]} * a.quants[i];
    const int64_t scale = (int64_t{w.scales[b]} * a.mantissas[b] * 2 + 0x8000) >> 16;
    int64_t product = 0;
    if (layout == WIRE_TILE_Q4_0)
      product = dot * scale;
    else if (layout == WIRE_TILE_Q8_0)
      product = (dot * scale) >> 4;
    else
      product = ((dot >> 8) * scale) >> 11;
    sum = check(sum + (check(product) >> a.shifts[b]));
  }
  return scaled_to_float(sum, w.exponent + a.exponent);
}

}  // namespace llada::hexagon
