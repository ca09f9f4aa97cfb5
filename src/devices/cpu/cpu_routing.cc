#include "devices/cpu/cpu_routing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace llada {
namespace {

constexpr float kOut = -std::numeric_limits<float>::infinity();
constexpr double kNotZero = 1e-20;  // LLaDA2's guard of the division

void softmax(const float* scores, int n, float* p) {
  const float max = *std::max_element(scores, scores + n);
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += p[i] = std::exp(scores[i] - max);
  for (int i = 0; i < n; ++i) p[i] = static_cast<float>(p[i] / sum);
}

// Leaves only the best groups in the race: a group is worth the sum of its two best.
void keep_best_groups(const Op& op, float* rank) {
  const int size = op.experts / op.groups;
  std::vector<float> worth(op.groups);
  std::vector<bool> keeps(op.groups, false);
  for (int g = 0; g < op.groups; ++g) {
    float best = kOut, second = kOut;
    for (int i = g * size; i < (g + 1) * size; ++i) {
      if (rank[i] > best)
        second = std::exchange(best, rank[i]);
      else if (rank[i] > second)
        second = rank[i];
    }
    worth[static_cast<size_t>(g)] = size > 1 ? best + second : best;
  }
  for (int kept = 0; kept < op.groups_used; ++kept) {
    const auto best = std::ranges::max_element(worth) - worth.begin();
    worth[static_cast<size_t>(best)] = kOut;
    keeps[static_cast<size_t>(best)] = true;
  }
  for (int g = 0; g < op.groups; ++g)
    if (!keeps[static_cast<size_t>(g)]) std::fill_n(rank + g * size, size, kOut);
}

}  // namespace

void route_row(const Op& op, const float* scores, const float* selection_bias, float* gates) {
  const int n = op.experts;
  // Damaged scores must not look like a choice among the others: one gate that is NaN makes the row NaN.
  const auto finite = [](float x) { return std::isfinite(x); };
  if (!std::all_of(scores, scores + n, finite) ||
      (selection_bias != nullptr && !std::all_of(selection_bias, selection_bias + n, finite))) {
    std::fill_n(gates, n, 0.0f);
    gates[0] = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  std::vector<float> probability(static_cast<size_t>(n)), rank(static_cast<size_t>(n));
  if (op.sigmoid != 0) {
    for (int i = 0; i < n; ++i) probability[static_cast<size_t>(i)] = 1.0f / (1.0f + std::exp(-scores[i]));
  } else {
    softmax(scores, n, probability.data());
  }
  for (size_t i = 0; i < rank.size(); ++i)
    rank[i] = probability[i] + (selection_bias != nullptr ? selection_bias[i] : 0.0f);
  if (op.groups > 1) keep_best_groups(op, rank.data());

  std::fill_n(gates, n, 0.0f);
  // The best so far, best first; of equals the lower index.
  std::vector<size_t> chosen(static_cast<size_t>(op.experts_used), 0);
  std::vector<float> best(chosen.size(), kOut);
  for (size_t i = 0; i < rank.size(); ++i) {
    if (!(rank[i] > best.back())) continue;
    size_t at = best.size() - 1;
    for (; at > 0 && rank[i] > best[at - 1]; --at) best[at] = best[at - 1], chosen[at] = chosen[at - 1];
    best[at] = rank[i], chosen[at] = i;
  }
  double sum = 0;
  for (const size_t e : chosen) sum += probability[e];
  const double scale = op.renormalise != 0 ? op.parameter / (sum + kNotZero) : op.parameter;
  for (const size_t e : chosen) gates[e] = static_cast<float>(probability[e] * scale);
}

}  // namespace llada
