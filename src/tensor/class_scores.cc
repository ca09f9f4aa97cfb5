#include "tensor/class_scores.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "base/random.h"

namespace llada {
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

// No less than -ln(-ln u), and cheap: -ln u is 1 - u at least, and 1 - u is 2^-k at least.
double most_noise(double u) {
  const auto exponent = static_cast<int64_t>(std::bit_cast<uint64_t>(1 - u) >> 52);
  return static_cast<double>(1023 - exponent) * 0.6931471806 + 1e-9;
}

constexpr size_t kLanes = 8;
constexpr double kLeastHeat = 1e-30;   // a quotient by less is not finite
constexpr float kAlmostNone = -1e30f;  // a logit that adds nothing to a sum

}  // namespace

TokenClasses::TokenClasses(std::vector<int32_t> class_of, int32_t count)
    : count_(count), class_of_(std::move(class_of)) {
  std::vector<int32_t> in_stretch;  // tokens of one
  for (size_t begin = 0; begin < class_of_.size(); begin += kStretch) {
    first_run_.push_back(runs_.size());
    const size_t end = std::min(class_of_.size(), begin + kStretch);
    in_stretch.clear();
    for (size_t t = begin; t < end; ++t)
      if (class_of_[t] >= 0) in_stretch.push_back(static_cast<int32_t>(t));
    const auto of = [&](int32_t token) { return class_of_[static_cast<size_t>(token)]; };
    std::ranges::sort(in_stretch, {}, [&](int32_t token) { return std::pair(of(token), token); });
    for (const int32_t token : in_stretch) {
      const auto at = static_cast<int32_t>(places_.size());
      if (runs_.size() == first_run_.back() || runs_.back().of != of(token)) runs_.push_back({of(token), at, at});
      places_.push_back(static_cast<uint16_t>(static_cast<size_t>(token) - begin));
      runs_.back().end = at + 1;
    }
  }
  first_run_.push_back(runs_.size());
}

int64_t TokenClasses::bytes() const {
  return static_cast<int64_t>(class_of_.size() * sizeof(int32_t) + places_.size() * sizeof(uint16_t) +
                              runs_.size() * sizeof(Run) + first_run_.size() * sizeof(size_t));
}

RowReader::RowReader(const ClassReading& reading, uint64_t key)
    : classes_(reading.classes),
      temperature_(std::max(reading.temperature, kLeastHeat)),
      heat_(static_cast<float>(std::max(reading.confidence_heat, kLeastHeat))),
      noisy_(reading.temperature > 0),
      key_(key) {
  row_.classes.resize(static_cast<size_t>(classes_->count()));
  sums_.resize(row_.classes.size());
}

// Adds exp(value - best) and the numbers weighted by it.
void RowReader::sum_up(Sums& sums, const float* values, size_t count, float best) const {
  using Lanes = std::array<double, kLanes>;
  Lanes sum{}, weighted{}, heated{};
  const auto add = [&](const float* eight) {
    Lanes below, part;
    for (size_t k = 0; k < kLanes; ++k) below[k] = static_cast<double>(eight[k]) - best;
    for (size_t k = 0; k < kLanes; ++k) part[k] = exp_of(below[k]);
    for (size_t k = 0; k < kLanes; ++k) sum[k] += part[k], weighted[k] += below[k] * part[k];
    if (!noisy_) return;
    for (size_t k = 0; k < kLanes; ++k) heated[k] += exp_of(below[k] / temperature_);
  };
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) add(values + i);
  if (i < count) {
    std::array<float, kLanes> rest;
    rest.fill(kAlmostNone);
    std::copy(values + i, values + count, rest.begin());
    add(rest.data());
  }
  for (size_t k = 0; k < kLanes; ++k) sums.sum += sum[k], sums.weighted += weighted[k], sums.heated += heated[k];
}

void RowReader::read_run(const TokenClasses::Run& run, const float* logits) {
  const auto count = static_cast<size_t>(run.end - run.begin);
  const uint16_t* const places = classes_->places().data() + run.begin;
  const auto first = static_cast<int32_t>(stretch_ * TokenClasses::kStretch);
  ClassScore& score = row_.classes[static_cast<size_t>(run.of)];
  Sums& sums = sums_[static_cast<size_t>(run.of)];
  if (values_.size() < count) values_.resize(count);
  float* const values = values_.data();
  for (size_t i = 0; i < count; ++i) values[i] = logits[places[i]];
  if (heat_ != 1)
    for (size_t i = 0; i < count; ++i) values[i] /= heat_;

  const float before = score.best;
  const bool fresh = score.top < 0;
  float second = score.runner_up < 0 ? -std::numeric_limits<float>::infinity() : score.second;
  for (size_t i = 0; i < count; ++i) {
    const float value = values[i];
    if (!(value > second) && score.runner_up >= 0) continue;
    const int32_t token = first + places[i];
    if (score.top < 0 || value > score.best) {
      score.runner_up = std::exchange(score.top, token);
      score.second = std::exchange(score.best, value);
    } else {
      score.runner_up = token, score.second = value;
    }
    second = score.second;
  }
  for (size_t i = 0; noisy_ && i < count; ++i) {
    const auto token = static_cast<uint64_t>(first + places[i]);
    const double u = draw(key_, token), value = values[i];
    if (score.token >= 0 && value + temperature_ * most_noise(u) <= sums.noised) continue;
    const double noised = value - temperature_ * std::log(-std::log(u));
    if (score.token < 0 || noised > sums.noised)
      sums.noised = noised, score.token = static_cast<int32_t>(token), score.logit = values[i];
  }

  if (count == 1 && fresh) {
    sums.sum = sums.heated = 1;
    return;
  }
  if (!fresh && score.best > before) {
    const double shift = static_cast<double>(before) - score.best, scale = exp_of(shift);
    sums.weighted = (sums.weighted + shift * sums.sum) * scale;
    sums.sum *= scale;
    sums.heated *= exp_of(shift / temperature_);
  }
  sum_up(sums, values, count, score.best);
}

void RowReader::read(std::span<const float> logits) {
  const int64_t left = classes_->tokens() - stretch_ * TokenClasses::kStretch;
  if (left <= 0 || std::ssize(logits) < std::min<int64_t>(left, TokenClasses::kStretch)) return;
  for (const TokenClasses::Run& run : classes_->runs(stretch_)) read_run(run, logits.data());
  ++stretch_;
}

void RowReader::read_all(std::span<const float> logits) {
  for (size_t begin = 0; begin < logits.size(); begin += TokenClasses::kStretch)
    read(logits.subspan(begin, std::min<size_t>(TokenClasses::kStretch, logits.size() - begin)));
}

RowScores RowReader::take() {
  for (size_t c = 0; c < row_.classes.size(); ++c) {
    ClassScore& score = row_.classes[c];
    if (score.top < 0) continue;
    if (!noisy_) score.token = score.top, score.logit = score.best;
    score.mass = score.best + std::log(sums_[c].sum);
    score.mean = score.best + sums_[c].weighted / sums_[c].sum;
    score.heated = noisy_ ? score.best / temperature_ + std::log(sums_[c].heated) : score.mass;
  }
  return std::move(row_);
}

}  // namespace llada
