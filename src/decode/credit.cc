#include "decode/credit.h"

#include <algorithm>
#include <cmath>

namespace llada::decode {
namespace {

constexpr double kDecay = 0.8, kPower = 0.2, kWeight = 0.7;

}  // namespace

Prediction Credit::fuse(int32_t position, Prediction p) {
  auto& credit = credit_[position];
  for (auto& [token, value] : credit) value *= kDecay;
  credit[p.token] += std::pow(p.probability, kPower);
  const auto factor = [&](int32_t token) {
    const auto found = credit.find(token);
    return found == credit.end() ? 1.0 : std::pow(1 + found->second, kWeight);
  };
  const bool has_second = p.runner_up >= 0 && p.runner_up != mask_id_ && p.runner_up != p.token;
  const double second = has_second ? std::clamp(p.probability - p.margin, 0.0, 1.0) : 0;
  const double rest = std::max(0.0, 1 - p.probability - second);
  double best_weight = p.probability * factor(p.token);
  double second_weight = has_second ? second * factor(p.runner_up) : 0;
  const double total = best_weight + second_weight + rest;
  if (total <= 0) return p;
  if (second_weight > best_weight) {
    std::swap(best_weight, second_weight);
    std::swap(p.token, p.runner_up);
  }
  p.probability = best_weight / total;
  p.margin = (best_weight - second_weight) / total;
  return p;
}

}  // namespace llada::decode
