#include "forms/scores.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/random.h"

namespace llada::forms {
namespace {

// exp(x) of x <= 0 to 14 digits, which compilers vectorize: half of the reading would be spent in the library's.
double exp_of(double x) {
  constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to a whole number, in the lowest bits
  constexpr double kLog2e = 1.4426950408889634, kHigh = 0.6931471803691238, kLow = 1.9082149292705877e-10;
  x = std::max(x, -700.0);
  const double shifted = x * kLog2e + kShift, whole = shifted - kShift;
  const double r = (x - whole * kHigh) - whole * kLow;
  double sum = 1.0 / 39916800;
  for (const double term : {1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24,
                            1.0 / 6, 1.0 / 2, 1.0, 1.0})
    sum = sum * r + term;
  const auto exponent = std::bit_cast<uint64_t>(shifted) << 52;
  return sum * std::bit_cast<double>(exponent + std::bit_cast<uint64_t>(1.0));
}

// Of one class while a row is read.
struct Sums {
  double noised = kImpossible, sum = 0, weighted = 0, heated = 0;
};

}  // namespace

RowScores read_row(std::span<const float> logits, const TokenForm& form, const Reading& reading) {
  const std::span<const int32_t> class_of = form.class_of();
  const size_t tokens = std::min(logits.size(), class_of.size());
  constexpr double kLeastHeat = 1e-30;  // what is divided by less is not finite
  const bool noisy = reading.temperature > 0;
  const double temperature = std::max(reading.temperature, kLeastHeat);
  const auto heat = static_cast<float>(std::max(reading.confidence_heat, kLeastHeat));
  const auto value_of = [&](size_t t) { return heat == 1 ? logits[t] : logits[t] / heat; };
  RowScores row;
  row.classes.resize(static_cast<size_t>(form.classes()));
  std::vector<Sums> sums(row.classes.size());
  for (size_t t = 0; t < tokens; ++t) {
    if (class_of[t] < 0) continue;
    const float value = value_of(t);
    ClassScore& score = row.classes[static_cast<size_t>(class_of[t])];
    const auto id = static_cast<int32_t>(t);
    if (score.top < 0 || value > score.best) {
      score.runner_up = score.top, score.second = score.best;
      score.top = id, score.best = value;
    } else if (score.runner_up < 0 || value > score.second) {
      score.runner_up = id, score.second = value;
    }
    if (!noisy) continue;
    Sums& s = sums[static_cast<size_t>(class_of[t])];
    const double noised = value - temperature * std::log(-std::log(draw(reading.key, t)));
    if (score.token < 0 || noised > s.noised) s.noised = noised, score.token = id, score.logit = value;
  }
  std::vector<float> best(row.classes.size());
  for (size_t c = 0; c < best.size(); ++c) best[c] = row.classes[c].best;
  constexpr size_t kBlock = 256;
  std::array<double, kBlock> below{}, part{}, heated{};
  for (size_t begin = 0; begin < tokens; begin += kBlock) {
    const size_t count = std::min(kBlock, tokens - begin);
    for (size_t i = 0; i < count; ++i) {
      const int32_t c = class_of[begin + i];
      below[i] = c < 0 ? 0 : static_cast<double>(value_of(begin + i)) - best[static_cast<size_t>(c)];
    }
    for (size_t i = 0; i < count; ++i) part[i] = exp_of(below[i]);
    for (size_t i = 0; noisy && i < count; ++i) heated[i] = exp_of(below[i] / temperature);
    for (size_t i = 0; i < count; ++i) {
      if (class_of[begin + i] < 0) continue;
      Sums& s = sums[static_cast<size_t>(class_of[begin + i])];
      s.sum += part[i], s.weighted += below[i] * part[i], s.heated += heated[i];
    }
  }
  for (size_t c = 0; c < row.classes.size(); ++c) {
    ClassScore& score = row.classes[c];
    if (score.top < 0) continue;
    if (!noisy) score.token = score.top, score.logit = score.best;
    score.mass = score.best + std::log(sums[c].sum);
    score.mean = score.best + sums[c].weighted / sums[c].sum;
    score.heated = noisy ? score.best / temperature + std::log(sums[c].heated) : score.mass;
  }
  return row;
}

}  // namespace llada::forms
