#include "forms/scores.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace llada::forms {

RowScores read_row(std::span<const float> logits, const TokenForm& form, const Reading& reading) {
  const std::span<const int32_t> class_of = form.class_of();
  const size_t tokens = std::min(logits.size(), class_of.size());
  const bool noisy = reading.temperature > 0;
  const auto heat = static_cast<float>(reading.confidence_heat);
  RowScores row;
  row.classes.resize(static_cast<size_t>(form.classes()));
  struct Sums {
    double noised = kImpossible, sum = 0, weighted = 0, heated = 0;
  };
  std::vector<Sums> sums(row.classes.size());
  for (size_t t = 0; t < tokens; ++t) {
    if (class_of[t] < 0) continue;
    const float value = heat == 1 ? logits[t] : logits[t] / heat;
    ClassScore& score = row.classes[static_cast<size_t>(class_of[t])];
    Sums& s = sums[static_cast<size_t>(class_of[t])];
    const auto id = static_cast<int32_t>(t);
    if (score.top < 0 || value > score.best) {
      score.runner_up = score.top, score.second = score.best;
      score.top = id, score.best = value;
    } else if (score.runner_up < 0 || value > score.second) {
      score.runner_up = id, score.second = value;
    }
    if (!noisy) continue;
    const double noised = value - reading.temperature * std::log(-std::log(draw(reading.key, t)));
    if (score.token < 0 || noised > s.noised) s.noised = noised, score.token = id, score.logit = value;
  }
  for (size_t t = 0; t < tokens; ++t) {
    if (class_of[t] < 0) continue;
    const float value = heat == 1 ? logits[t] : logits[t] / heat;
    const ClassScore& score = row.classes[static_cast<size_t>(class_of[t])];
    Sums& s = sums[static_cast<size_t>(class_of[t])];
    const double below = static_cast<double>(value) - score.best, part = std::exp(below);
    s.sum += part, s.weighted += below * part;
    if (noisy) s.heated += std::exp(below / reading.temperature);
  }
  for (size_t c = 0; c < row.classes.size(); ++c) {
    ClassScore& score = row.classes[c];
    if (score.top < 0) continue;
    if (!noisy) score.token = score.top, score.logit = score.best;
    score.mass = score.best + std::log(sums[c].sum);
    score.mean = score.best + sums[c].weighted / sums[c].sum;
    score.heated = noisy ? score.best / reading.temperature + std::log(sums[c].heated) : score.mass;
  }
  return row;
}

}  // namespace llada::forms
