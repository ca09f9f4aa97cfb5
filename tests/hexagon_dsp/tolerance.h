// What the DSP's kernels may be off by: sums of the roundings that their arithmetic makes, over the magnitudes of the
// very inputs. No number here was fitted to a measurement.
//
// u = 2^-24 is the unit roundoff of F32: a rounded result is off by at most u of itself, below normal numbers by half
// of 2^-149. n roundings one after another: gamma(n) = n u / (1 - n u) (Higham, Accuracy and Stability of Numerical
// Algorithms, lemma 3.1). Terms of one sign keep relative errors when they are added. Divisions are rounded once.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "hexagon_dsp/integer_oracle.h"

namespace llada::hexagon {

constexpr double kU = 0x1p-24;
constexpr double kHalfSmallest = 0x1p-150;  // half of the smallest F32

inline double gamma(double roundings) { return roundings * kU / (1 - roundings * kU); }

// exponential(x) of dsp/float_math.h for x <= 0. The reduced argument is off by 0.29 u (its second fused step, |r| <
// 0.3466, and ln 2 in two parts), the polynomial's missing terms by 0.13 u, its coefficients by 0.01 u, its steps from
// the last to the first by u (1 + 0.41 + 0.10 + 0.03): below 2 u in all. Results below 2^-126 are rounded once more;
// below e^-104 they are 0.
constexpr double kExponential = 2;
constexpr double kExponentialFloor = 0x1p-149;
// inverse_sqrt(x): the last Newton step has h = x y / 2 rounded (half of that in the result) and its own rounding; what
// the step before left is squared.
constexpr double kInverseSqrt = 1.5;

// 2^-t in dsp/fixed_math.h for e^-d, relative, in u: d is given in 24 digits behind the point, rounded (half of 2^-24),
// t = d log2(e) rounded to 23 digits with a constant off by 2^-31.5 of itself, the polynomial off by 2^-26.5, its steps
// by 2^-30 each: ln 2 (0.73 + 1 + t 2^-7.5) + 0.18 + 0.1.
inline double fixed_power(double d) { return 1.5 + 0.0055 * std::min(d, 128.0); }

// dsp/rows_plain.cc, rms_norm, relative: numbers are cut to 2^-28 of a power of two that the largest reaches, so the
// sum of squares is off by 2 sqrt(n) 2^-28 of itself (Cauchy), and by n floors of 2^-40; it is rounded to F32, divided,
// and epsilon is added; of the mean's error the root halves; then the root itself and two products.
inline double rms_norm_roundings(int64_t n) {
  const double squares = std::sqrt(static_cast<double>(n)) / 8 + static_cast<double>(n) * 0x1p-16;
  return (squares + 1 + 1 + 1) / 2 + kInverseSqrt + 2;
}
inline double rms_norm_bound(int64_t n, double exact, double weight) {
  return gamma(rms_norm_roundings(n)) * std::fabs(exact) + (1 + std::fabs(weight)) * kHalfSmallest;
}

// rope: a c - b s, two products rounded and their difference.
inline double rope_bound(double ac, double bs) {
  return gamma(2) * (std::fabs(ac) + std::fabs(bs)) + 3 * kHalfSmallest;
}

// swiglu: e = 2^-t with 30 digits, 1 / (1 + e), of which e is at most a half, off by 2^-28; for a negative gate e times
// it; rounded to F32, twice where it is below normal numbers; the products with gate and up.
inline double swiglu_bound(double gate, double up, double exact) {
  const double power = fixed_power(std::fabs(gate));
  const double roundings = (gate < 0 ? power : 0) + power / 2 + 0.2 + 1 + 2;
  return gamma(roundings) * std::fabs(exact) + kExponentialFloor * std::fabs(gate * up) +
         (2 + std::fabs(up)) * kHalfSmallest;
}

// multiply_f32: 8 chains of fused steps, three levels of additions. products: the sum of |w x|.
inline double matmul_f32_bound(int64_t inputs, double products) {
  return gamma(std::ceil(static_cast<double>(inputs) / 8) + 3) * products;
}

// One output of one row of a tile's product, against the product of the weights as they are in the file (of integer
// types: of their quants and exact scales with the same quants of the activations). x: the row; weights: the output's
// values.
//
// A sum's unit U is 2^(w.exponent + a.exponent). Of a block, F16: a weight is off by half its step, an activation by
// half its own, then floor(P / 2^8) by one, which the scales c / 2^11 make c / 2^11 of the product's unit U / 2^shift;
// the floor behind them takes another of these, the shift one U. Integer types: the combined scale is off, in units of
// the weight scale's power of two / 2^15 times the activation's scale, by 1/2 (the weight's 16 bits), 1 (the
// activation's 15, whose mantissa is at least a half) and 1 (their rounded product); Q8_0 floors at 2^4, both at the
// shift. The bias only makes floors smaller. A block beyond the shifter's reach is dropped whole. Then one rounding to
// F32.
inline double tile_bound(uint32_t layout, const PackedOutput& w, const QuantizedRow& a, const float* x) {
  const double unit = std::ldexp(1.0, w.exponent + a.exponent);
  double bound = 0x1p-126, all = 0;  // results below normal numbers are zero
  for (size_t b = 0; b < a.mantissas.size(); ++b) {
    const double step = std::fabs(std::ldexp(static_cast<double>(w.scales[b]), w.exponent - 15));
    double dot = 0, weights = 0, inputs = 0, products = 0;
    for (size_t i = b * 32; i < (b + 1) * 32; ++i) {
      const double value = std::fabs(static_cast<double>(x[i]));
      dot += std::abs(w.quants[i] * static_cast<double>(a.quants[i]));
      weights += std::abs(w.quants[i]) * step, inputs += value;
      products += std::abs(w.quants[i]) * step * value;
    }
    all += products;
    if (a.mantissas[b] == 0) {
      bound += products + 0.5 * step * inputs;
      continue;
    }
    const double floors = std::ldexp(unit, -a.shifts[b]);
    if (layout == WIRE_TILE_F16) {
      const double c = std::fabs(static_cast<double>(w.scales[b]) * a.mantissas[b]) / 0x1p15;
      bound += 0.5 * (weights * a.steps[b] + inputs * step) + 32 * 0.25 * step * a.steps[b];
      bound += (c / 0x1p11 + 1) * floors + unit;
    } else {
      bound += dot * std::ldexp(2.5, w.exponent - 15) * a.steps[b] + (layout == WIRE_TILE_Q8_0 ? floors : 0) + unit;
    }
  }
  return bound + kU * (all + bound);
}

// Worst error and worst share of the bound of one kernel, printed for the documentation's table.
class Measured {
 public:
  explicit Measured(std::string kernel) : kernel_(std::move(kernel)) {}
  ~Measured() {
    if (count_ > 0)
      fmt::print("error beside its bound, {}: at most {:.2g} of {:.2g}, {:.1f} % of the bound at most, {} numbers\n",
                 kernel_, error_, bound_, 100 * share_, count_);
  }
  // False where the error is above the bound. What was measured is told where it takes the largest share, of numbers
  // far from the smallest.
  bool add(double got, double want, double bound) {
    ++count_;
    const double error = std::fabs(got - want);
    if (!(error <= bound)) return false;
    const bool normal = std::fabs(want) >= 0x1p-80;  // far from where everything is rounded to 2^-149
    if (normal && bound > 0 && error / bound > share_) share_ = error / bound, error_ = error, bound_ = bound;
    return true;
  }

 private:
  std::string kernel_;
  double share_ = 0, error_ = 0, bound_ = 0;
  int64_t count_ = 0;
};
// In a test: got within bound of want.
#define EXPECT_WITHIN(measured, got, want, bound)                                                              \
  if (const double within_got = (got), within_want = (want), within_bound = (bound);                           \
      (measured).add(within_got, within_want, within_bound))                                                   \
    ;                                                                                                          \
  else                                                                                                         \
    GTEST_FAIL() << within_got << " for " << within_want << ", off by " << std::fabs(within_got - within_want) \
                 << ", allowed " << within_bound << ": "

}  // namespace llada::hexagon
