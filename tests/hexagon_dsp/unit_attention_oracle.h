// Attention of one row by the matrix unit (dsp/attention_unit.h) in double arithmetic, and what it may be off by, as in
// attention_oracle.h: the roundings of every stage, over the magnitudes of the very inputs.
//
// v = 2^-11 is the unit roundoff of FP16; a step of the unit's sums may be off by 2^-21 of the largest part so far
// (unit_bound.h). Keys and values keep their bits, so a score is off by its query's roundings and by the sum's steps.
// A distance t, in powers of two, is off by the roundings of c and of the distance, v of it each; results below FP16's
// normal numbers by 2^-15 of a unit; and it is cut to 11 digits, of which half is every weight's. A weight: 2^-12 of
// itself by its polynomial, v by its rounding; below 2^-24 it is dropped. All weights have a factor that cancels, since
// what is taken from the scores may be more than the largest by 1.5 steps of FP16: t0 powers of two at most.
#pragma once
#include "hexagon_dsp/attention_oracle.h"

namespace llada::hexagon {

// first: the store's position of the first key.
inline AttentionRow attend_unit_oracle(const AttentionInputs& a, int64_t first) {
  using namespace attention_detail;
  constexpr int64_t kChunk = 512;
  constexpr double kV = 0x1p-11, kStep = 0x1p-21, kPower = 0x1p-12 + kV + 0x1p-22;
  const Exact e = exact_scores(a);
  const double scale = 1 / std::sqrt(static_cast<double>(a.d)), c = scale * kLog2E;
  float most = 0;
  for (int64_t i = 0; i < a.d; ++i) most = std::max(most, std::fabs(a.q[i]));
  const int exponent = ceiling(most) - 8;                               // of the query
  const double unit = std::ldexp(1.0, 11 + ceiling(c) - 1 + exponent);  // of a distance's result, in powers of two
  const double no_input = std::ldexp(1.0, exponent - 14) + 0x1p-126;
  const double size = *std::max_element(e.size.begin(), e.size.end());  // what the query's own score takes, too

  Errors errors;
  errors.mix.assign(static_cast<size_t>(a.d), 0);
  int64_t chunks = 0;
  for (int64_t begin = 0, end; begin < a.count; begin = end, ++chunks) {
    end = std::min(a.count, ((first + begin) / kChunk + 1) * kChunk - first);
    double top = -INFINITY;
    for (int64_t k = begin; k < end; ++k) top = std::max(top, e.score[static_cast<size_t>(k)]);
    const double steps = 2 * size * static_cast<double>(a.d + 32) * kStep;
    const double t0 = 4 * kV * (std::fabs(top) + steps) * kLog2E + unit * 0x1p-15;
    const double share = std::exp(top - e.top) * std::exp2(t0);  // of this chunk's weights, at most
    double sum = 0, sum_off = 0;
    std::vector<double> mix(errors.mix.size()), mix_off(errors.mix.size()), all(errors.mix.size());
    for (int64_t k = begin; k < end; ++k) {
      const auto at = static_cast<size_t>(k);
      double score = steps;
      for (int64_t i = 0; i < a.d; ++i)
        score += scale * (std::fabs(double{a.q[i]}) * kV + no_input) * std::fabs(a.key(k, i));
      const double t = (top - e.score[at]) * kLog2E + score * kLog2E + t0;
      const double t_error = t * (2 * kV + kV * kV) + 0.5 * kV + unit * (0x1p-15 + 0x1p-25);
      const double eta = std::expm1(score + kLn2 * t_error) + kPower;
      errors.eta.push_back(eta);
      const double w = std::exp(e.score[at] - e.top);
      sum += w, sum_off += w * eta + share * 0x1p-24;
      errors.sum += share * 0x1p-24;
      for (int64_t i = 0; i < a.d; ++i) {
        const auto x = static_cast<size_t>(i);
        const double value = std::fabs(a.value(k, i));
        mix[x] += w * a.value(k, i), all[x] += w * value;
        mix_off[x] += w * eta * value + share * 0x1p-24 * value;
        errors.mix[x] += share * 0x1p-24 * value;
      }
    }
    // Rounded to FP16, as the sum is: a result of 1 is a mix of 8.
    const double of_sum = static_cast<double>(end - begin) * kStep;
    errors.sum += (kV + of_sum) * (sum + sum_off);
    for (size_t x = 0; x < mix.size(); ++x)
      errors.mix[x] += kV * (std::fabs(mix[x]) + mix_off[x]) + of_sum * (all[x] + mix_off[x]) + share * 0x1p-22;
  }
  // The inverse of a sum has 16 bits; joins as in attend_vectors_oracle().
  double range = 0;
  for (const double s : e.score) range = std::max(range, e.top - s);
  const double joins = static_cast<double>(chunks - 1);
  errors.last = 0x1p-16 + gamma(4 + 2 * joins * (kExponential + 3 + 4 * range));
  AttentionRow row = result(a, e, errors);
  // Where a weight may be anything, the result is still a mean of values.
  for (int64_t i = 0; i < a.d; ++i) {
    double most_value = 0;
    for (int64_t k = 0; k < a.count; ++k) most_value = std::max(most_value, std::fabs(a.value(k, i)));
    double& bound = row.bound[static_cast<size_t>(i)];
    if (!(bound >= 0) || bound > 2.01 * most_value) bound = 2.01 * most_value;
  }
  return row;
}

}  // namespace llada::hexagon
