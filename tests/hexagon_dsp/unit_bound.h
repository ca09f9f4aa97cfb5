// How far a product of the matrix unit may lie from the product of the file's weights: the roundings that
// src/devices/hexagon/dsp/unit_tiles.h states, over the magnitudes of the very inputs, as in tolerance.h.
//
// v = 2^-11 is the unit roundoff of FP16's normal numbers. A weight has two roundings, of a factor and of the product,
// beside those of its packing; an input has one. What is flushed to zero lies below the smallest normal number. The sum:
// whatever a unit adds in one step, and however it cuts bits off, a step may be off by 2^-21 of the largest partial sum
// or product so far; there are no more steps than products. Then one rounding to FP16.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "hexagon_dsp/integer_oracle.h"

namespace llada::hexagon {

inline double unit_bound(uint32_t layout, const PackedOutput& w, const float* x, int64_t inputs) {
  constexpr double kV = 0x1p-11;
  const bool q4 = layout == WIRE_TILE_Q4_0, wide = layout == WIRE_TILE_F16;
  const int weight_shift = wide ? 21 : 14, table_shift = q4 ? 10 : 14;
  float most = 0;
  for (int64_t i = 0; i < inputs; ++i) most = std::max(most, std::fabs(x[i]));
  int exponent = 0;  // of the row
  std::frexp(most, &exponent);
  exponent -= 8;
  const bool nothing = most < 0x1p-119f;
  const double weight_unit = std::ldexp(1.0, w.exponent - 15 + weight_shift);
  const double no_weight = wide ? 0x1p-14 * weight_unit : 0, no_input = std::ldexp(1.0, exponent - 14) + 0x1p-126;
  double bound = 0x1p-126, sum = 0, largest = 0;
  for (int64_t i = 0; i < inputs; ++i) {
    const auto at = static_cast<size_t>(i);
    const double value = w.value(at), input = std::fabs(static_cast<double>(x[i]));
    const double step = std::ldexp(1.0, w.exponent - 15);
    const double packed = wide ? 0.5 * std::abs(w.scales[at / 32]) * step : 0.5 * std::abs(w.quants[at]) * step;
    bound += packed * input;
    if (nothing) {
      bound += std::fabs(value) * input;
      continue;
    }
    const double off_weight = std::fabs(value) * (2 * kV + kV * kV) + no_weight, off_input = input * kV + no_input;
    bound += off_weight * input + (std::fabs(value) + off_weight) * off_input;
    largest = std::max({largest, std::fabs(value * x[i]), std::fabs(sum += value * x[i])});
  }
  bound += static_cast<double>(inputs) * 0x1p-21 * (largest + bound);
  const double result_unit = std::ldexp(weight_unit, exponent + table_shift);
  return bound + kV * (std::fabs(sum) + bound) + 0x1p-25 * result_unit;
}

}  // namespace llada::hexagon
