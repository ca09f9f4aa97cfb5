#include "devices/cpu/cpu_routing.h"

#include <array>
#include <vector>

#include "devices/routing_rule.h"
#include "devices/value_plan.h"

namespace llada {
namespace {

// Lanes one after the other. As many as the square root of the experts, or about: finding the next of the chosen takes
// a look at each lane and at each expert of one lane.
constexpr int kLanes = 16;
struct InTurn {
  template <class F>
  void each(F f) const {
    for (int lane = 0; lane < kLanes; ++lane) f(lane);
  }
};

}  // namespace

void route_row(const Op& op, const float* scores, const float* selection_bias, float* gates) {
  const auto n = static_cast<size_t>(op.experts);
  std::vector<float> floats(3 * n);
  std::array<int32_t, kLanes> best;
  double sum = 0;
  route_by<kLanes>(routing_rule(op), scores, selection_bias,
                   {&sum, floats.data(), floats.data() + n, floats.data() + 2 * n, best.data()}, gates, InTurn{});
}

}  // namespace llada
