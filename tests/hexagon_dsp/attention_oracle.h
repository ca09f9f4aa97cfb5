// Attention of one row over some keys in double arithmetic, and what the DSP's two ways (dsp/attention_plain.cc,
// dsp/attention_vectors.cc) may be off by: the roundings of every stage, carried through the softmax. No number here
// was fitted to a measurement.
//
// With weights w_k off by a share eta_k, and the mix and the sum off by mix_error and sum_error beside that, an output
// o = sum w v / sum w is off by (sum w |v| eta + mix_error + |o| (sum w eta + sum_error)) / sum w.
#pragma once
#include <vector>

#include "hexagon_dsp/tolerance.h"

namespace llada::hexagon {

struct AttentionRow {
  std::vector<double> out, bound;  // by element
};

// keys, values: count x d.
struct AttentionInputs {
  const float* q;
  const double* keys;
  const double* values;
  int64_t count, d;
  double key(int64_t k, int64_t i) const { return keys[k * d + i]; }
  double value(int64_t k, int64_t i) const { return values[k * d + i]; }
};

namespace attention_detail {

constexpr double kLn2 = 0.6931471805599453, kLog2E = 1.4426950408889634;

inline int ceiling(double v) {  // v < 2^ceiling
  int e = -1000;
  if (v != 0) std::frexp(v, &e);
  return e;
}

// What is known of a row before errors: scores as the softmax sees them (natural units).
struct Exact {
  std::vector<double> score, size;  // size: the sum of |q k|, in the same units
  double top = -INFINITY;
};
inline Exact exact_scores(const AttentionInputs& a) {
  Exact e;
  const double scale = 1 / std::sqrt(static_cast<double>(a.d));
  for (int64_t k = 0; k < a.count; ++k) {
    double score = 0, size = 0;
    for (int64_t i = 0; i < a.d; ++i) score += a.q[i] * a.key(k, i), size += std::fabs(a.q[i] * a.key(k, i));
    e.score.push_back(score * scale), e.size.push_back(size * scale);
    e.top = std::max(e.top, score * scale);
  }
  return e;
}

// eta by key; mix_error by element; all relative to a weight of 1 for the row's largest score.
struct Errors {
  std::vector<double> eta, mix;
  double sum = 0, last = 0;  // last: relative, of the joins and the division
};

inline AttentionRow result(const AttentionInputs& a, const Exact& e, const Errors& errors) {
  AttentionRow row;
  double sum = 0, off = errors.sum;
  for (int64_t k = 0; k < a.count; ++k) {
    const double w = std::exp(e.score[static_cast<size_t>(k)] - e.top);
    sum += w, off += w * errors.eta[static_cast<size_t>(k)];
  }
  for (int64_t i = 0; i < a.d; ++i) {
    double mix = 0, mix_off = errors.mix[static_cast<size_t>(i)];
    for (int64_t k = 0; k < a.count; ++k) {
      const double w = std::exp(e.score[static_cast<size_t>(k)] - e.top);
      mix += w * a.value(k, i), mix_off += w * std::fabs(a.value(k, i)) * errors.eta[static_cast<size_t>(k)];
    }
    const double out = mix / sum;
    // Divided by a sum that is itself off.
    row.bound.push_back((mix_off + std::fabs(out) * off) / (sum - off) +
                        errors.last * (std::fabs(out) + mix_off / sum) + kHalfSmallest);
    row.out.push_back(out);
  }
  return row;
}

}  // namespace attention_detail

// In scalar floats: scores in 4 chains, two levels of additions, a root and a product; per tile of 32 keys a rescaling
// of sum and mix; both added key by key.
inline AttentionRow attend_plainly_oracle(const AttentionInputs& a) {
  using namespace attention_detail;
  const Exact e = exact_scores(a);
  Errors errors;
  const double chain = std::ceil(static_cast<double>(a.d) / 4) + 2 + kInverseSqrt + 1;
  const double tiles = std::ceil(static_cast<double>(a.count) / 32);
  double worst = 0;  // of a score
  for (const double size : e.size) worst = std::max(worst, gamma(chain) * size);
  for (int64_t k = 0; k < a.count; ++k) {
    const auto at = static_cast<size_t>(k);
    const double t = e.top - e.score[at];
    // Differences to the largest so far, and of the largest ones to each other, are rounded and sum to t; what the
    // largest itself is off by is a factor of all weights.
    const double exponent = gamma(chain) * e.size[at] + gamma(1) * (t + 2 * worst);
    errors.eta.push_back(std::expm1(exponent) + gamma(kExponential + tiles * (kExponential + 1)) +
                         gamma(static_cast<double>(a.count)));
  }
  errors.sum = static_cast<double>(a.count) * kExponentialFloor;
  for (int64_t i = 0; i < a.d; ++i) {
    double largest = 0;
    for (int64_t k = 0; k < a.count; ++k) largest = std::max(largest, std::fabs(a.value(k, i)));
    errors.mix.push_back(static_cast<double>(a.count) * largest * kExponentialFloor);
  }
  errors.last = gamma(2);
  return result(a, e, errors);
}

// In integers, by chunks of 512 keys. Words: field = a power of two above the largest score; unit = of a kernel's sum.
inline AttentionRow attend_vectors_oracle(const AttentionInputs& a) {
  using namespace attention_detail;
  constexpr int64_t kChunk = 512, kTile = 32;
  const Exact e = exact_scores(a);
  const double scale = 1 / std::sqrt(static_cast<double>(a.d));
  const auto base_of = [](int64_t blocks) {
    int shift = 0;
    while (blocks > int64_t{2} << shift) ++shift;
    return shift;
  };
  const auto even = [](int64_t blocks) { return (blocks + 1) / 2 * 2; };

  // Queries: 16 bits of a power of two per 32 of them, max / step in (2^13, 2^14], rounded to half a step.
  std::vector<double> query_step;
  double largest_step = 0;
  for (int64_t b = 0; b < a.d / 32; ++b) {
    double most = 0;
    for (int64_t i = 32 * b; i < 32 * b + 32; ++i) most = std::max(most, std::fabs(double{a.q[i]}));
    int exponent = 0;
    const double fraction = std::frexp(most, &exponent);
    query_step.push_back(most == 0 ? 0 : std::ldexp(1.0, (fraction == 0.5 ? exponent - 1 : exponent) - 14));
    largest_step = std::max(largest_step, query_step.back());
  }
  const int64_t blocks = even(a.d / 32);
  Errors errors;
  errors.mix.assign(static_cast<size_t>(a.d), 0);
  std::vector<double> score_error;  // natural units
  for (int64_t tile = 0; tile < a.count; tile += kTile) {
    const int64_t end = std::min(a.count, tile + kTile);
    double most = 0;
    for (int64_t k = tile; k < end; ++k)
      for (int64_t i = 0; i < a.d; ++i) most = std::max(most, std::fabs(a.key(k, i)));
    // Keys: steps of 2^-14 of the power of two at or below the tile's largest, rounded to half a step.
    const double key_step = std::ldexp(1.0, std::max(ceiling(most), -13) - 1 - 14);
    // A unit is the product of both steps times 2^9 for the floors' 8 and 11 bits less the scale's 13, and 2^base. A
    // block loses floor(P / 2^8), of which the scales make 4 of the next floor's units, that floor's one, and the
    // shift's one.
    const double unit = std::ldexp(key_step * largest_step, 6 + base_of(blocks));
    const double floors = static_cast<double>(blocks) * unit * (5 * std::ldexp(1.0, -base_of(blocks)) + 1);
    for (int64_t k = tile; k < end; ++k) {
      double error = floors;
      for (int64_t i = 0; i < a.d; ++i) {
        const double dq = 0.5 * query_step[static_cast<size_t>(i / 32)], dk = 0.5 * key_step;
        error += std::fabs(a.key(k, i)) * dq + std::fabs(double{a.q[i]}) * dk + dq * dk;
      }
      score_error.push_back((error * (1 + kU) + kU * std::fabs(e.score[static_cast<size_t>(k)]) / scale) * scale);
    }
  }

  const int64_t chunks = (a.count + kChunk - 1) / kChunk;
  for (int64_t chunk = 0; chunk < a.count; chunk += kChunk) {
    const int64_t n = std::min(kChunk, a.count - chunk), tiles = (n + kTile - 1) / kTile;
    double top = -INFINITY, size = 0, value_top = 0;
    for (int64_t k = chunk; k < chunk + n; ++k) {
      const double s = e.score[static_cast<size_t>(k)], off = score_error[static_cast<size_t>(k)];
      top = std::max(top, s), size = std::max(size, (std::fabs(s) + off) / scale);
      for (int64_t i = 0; i < a.d; ++i) value_top = std::max(value_top, std::fabs(a.value(k, i)));
    }
    const double share = std::exp(top - e.top);  // of this chunk's weights in the row's
    // t = (largest - score) * log2(e) * scale with 24 digits behind the point: each score cut to 2^-28 of a power of
    // two, the factor of 15 bits, the product rounded in units of 2^exponent, or cut.
    const double score_unit = std::ldexp(1.0, ceiling(size) - 1 - 28);
    const int exponent = ceiling(scale * kLog2E * score_unit * 0x1p24);
    const double product = (exponent > 0 ? std::ldexp(0.5, exponent) : 1.5) * 0x1p-24;
    // A weight 2^-t: 15 bits of the fraction of t, five steps rounded to 2^-31 of a half at least; 30 digits in all.
    constexpr double kPower = kLn2 * 0x1p-15 + 0x1p-22, kDigit = 0x1p-30;
    const auto tile_largest = [&](int64_t tile) {
      double most = 0;
      for (int64_t k = chunk + tile * kTile; k < chunk + std::min(n, (tile + 1) * kTile); ++k)
        most = std::max(most, std::exp(e.score[static_cast<size_t>(k)] - top));
      return most;
    };
    const int value_exponent = std::max(ceiling(value_top), -13) - 1;  // 2^value_exponent <= the largest value
    for (int64_t tile = 0; tile < tiles; ++tile) {
      double most_value = 0;
      const int64_t begin = chunk + tile * kTile, end = chunk + std::min(n, (tile + 1) * kTile);
      for (int64_t k = begin; k < end; ++k)
        for (int64_t i = 0; i < a.d; ++i) most_value = std::max(most_value, std::fabs(a.value(k, i)));
      const double value_step =
          std::ldexp(1.0, std::max(std::max(ceiling(most_value), -13) - 1, value_exponent - 13) - 14);
      // As activations: 14 bits of the tile's largest weight, which itself may be off by less than a hundredth,
      // rounded.
      const double weight_error = tile_largest(tile) * 0x1p-14 * 1.01 + kDigit;
      for (int64_t k = begin; k < end; ++k) {
        const double t = (top - e.score[static_cast<size_t>(k)]) * kLog2E;
        const double t_error = t * (0x1p-15 + 0x1p-22) + 2 * score_unit * kLog2E * scale + product;
        errors.eta.push_back(std::expm1(score_error[static_cast<size_t>(k)] + kLn2 * t_error) + kPower);
        errors.sum += share * (0x1p-26 + kDigit);
        const double w = std::exp(e.score[static_cast<size_t>(k)] - top);
        for (int64_t i = 0; i < a.d; ++i)
          errors.mix[static_cast<size_t>(i)] +=
              share * ((w + weight_error) * 0.5 * value_step + weight_error * std::fabs(a.value(k, i)));
      }
    }
    // The kernel's floors, as above; weights have steps of 2^(16 - 30) at most, values those of the chunk's largest.
    const double unit = std::ldexp(1.0, value_exponent - 14 + 16 - 30 + 6 + base_of(even(tiles)));
    for (double& mix : errors.mix)
      mix += share * static_cast<double>(even(tiles)) * unit * (5 * std::ldexp(1.0, -base_of(even(tiles))) + 1);
  }
  // Sums and mixes rounded to F32; a join has a factor (its argument two roundings) and a fused step of two products;
  // the division and the last product.
  double range = 0;
  for (const double s : e.score) range = std::max(range, e.top - s);
  const double joins = static_cast<double>(chunks - 1);
  errors.last = gamma(1 + 2 + 2 * joins * (kExponential + 3 + 4 * range));
  return result(a, e, errors);
}

}  // namespace llada::hexagon
