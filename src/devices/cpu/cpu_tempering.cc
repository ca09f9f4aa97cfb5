#include "devices/cpu/cpu_tempering.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace llada {
namespace {

// Less than 2^-30 of the best token's probability changes no activation that is stored in 16 bits.
constexpr double kReach = 30 * std::numbers::ln2;

}  // namespace

TemperedRow temper_row(std::span<const float> logits, double temperature, double draw,
                       std::span<const kernels::SoftmaxStats> chunks, int64_t columns) {
  const auto divisor = static_cast<float>(temperature);
  double best = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const kernels::SoftmaxStats& chunk : chunks) best = std::max<double>(best, chunk.max);
  const auto mass = [&](const kernels::SoftmaxStats& chunk) { return chunk.sum * std::exp(chunk.max - best); };
  for (const kernels::SoftmaxStats& chunk : chunks) sum += mass(chunk);
  TemperedRow row;
  if (!std::isfinite(sum)) return row;
  const auto below = [&](float logit) { return static_cast<double>(logit / divisor) - best; };
  const auto part = [&](size_t chunk) {
    const auto first = chunk * static_cast<size_t>(columns);
    return std::pair(first, std::min(logits.size(), first + static_cast<size_t>(columns)));
  };
  // The chunk that the draw lies in; where rounding leaves it above the sum of all, the last one that has a share.
  size_t with_draw = 0;
  double left = draw * sum, in_chunk = left;
  for (size_t c = 0; c < chunks.size() && left >= 0; ++c) {
    const double share = mass(chunks[c]);
    if (share > 0) with_draw = c, in_chunk = left;
    left -= share;
  }
  for (auto [id, end] = part(with_draw); id < end && in_chunk >= 0; ++id) {
    const double weight = std::exp(below(logits[id]));
    if (weight > 0) row.drawn = static_cast<int32_t>(id);
    in_chunk -= weight;
  }
  for (size_t c = 0; c < chunks.size(); ++c) {
    if (chunks[c].max - best < -kReach) continue;
    for (auto [id, end] = part(c); id < end; ++id) {
      const double x = below(logits[id]);
      if (x < -kReach) continue;
      row.tokens.push_back(static_cast<int32_t>(id));
      row.probabilities.push_back(static_cast<float>(std::exp(x) / sum));
    }
  }
  return row;
}

void append(Tempered& stream, const TemperedRow& row) {
  SoftTokens& soft = stream.soft;
  stream.drawn.push_back(row.drawn);
  soft.tokens.insert(soft.tokens.end(), row.tokens.begin(), row.tokens.end());
  soft.probabilities.insert(soft.probabilities.end(), row.probabilities.begin(), row.probabilities.end());
  soft.begin.push_back(std::ssize(soft.tokens));
}

}  // namespace llada
