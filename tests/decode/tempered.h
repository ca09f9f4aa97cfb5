// A row of logits at a temperature, by the definition: what devices say of rows of a canvas of random tokens.
#pragma once
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "tensor/prediction.h"

namespace llada {

struct TemperedOracle {
  Prediction prediction;
  int32_t drawn = -1;
  std::vector<double> probabilities;  // of the whole vocabulary
};

inline TemperedOracle tempered(std::span<const float> logits, double temperature, double draw) {
  TemperedOracle row;
  Prediction& p = row.prediction;
  p.token = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
  p.logit = logits[static_cast<size_t>(p.token)];
  double sum = 0;
  for (const float logit : logits) {
    row.probabilities.push_back(std::exp((static_cast<double>(logit) - p.logit) / temperature));
    sum += row.probabilities.back();
  }
  double below = 0;
  for (size_t id = 0; id < logits.size(); ++id) {
    double& share = row.probabilities[id];
    share /= sum;
    if (share > 0) p.entropy -= share * std::log(share);
    if (share > 0 && below <= draw) row.drawn = static_cast<int32_t>(id);
    below += share;
    if (static_cast<int32_t>(id) != p.token &&
        (p.runner_up < 0 || logits[id] > logits[static_cast<size_t>(p.runner_up)]))
      p.runner_up = static_cast<int32_t>(id);
  }
  p.probability = 1 / sum;
  p.margin = p.probability - (p.runner_up < 0 ? 0 : row.probabilities[static_cast<size_t>(p.runner_up)]);
  return row;
}

}  // namespace llada
