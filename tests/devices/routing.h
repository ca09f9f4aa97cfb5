// What the router's tests share: one row's gates, and the score whose sigmoid is p.
#pragma once
#include <cmath>
#include <vector>

#include "devices/cpu/cpu_routing.h"

namespace llada {

inline std::vector<float> routed(const Op& op, const std::vector<float>& scores, const float* bias = nullptr) {
  std::vector<float> out(scores.size(), -1);
  route_row(op, scores.data(), bias, out.data());
  return out;
}
inline float logit(double p) { return static_cast<float>(std::log(p / (1 - p))); }

}  // namespace llada
