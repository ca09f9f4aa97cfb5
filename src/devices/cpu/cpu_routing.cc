#include "devices/cpu/cpu_routing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

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

void route_row(const Op& op, const float* scores, const float* selection_bias, float* gates, const uint8_t* allowed) {
  const auto n = static_cast<size_t>(op.experts);
  std::vector<float> floats(3 * n);
  std::array<int32_t, kLanes> best;
  double sum = 0;
  route_by<kLanes>(routing_rule(op), scores, selection_bias,
                   {&sum, floats.data(), floats.data() + n, floats.data() + 2 * n, best.data()}, gates, InTurn{},
                   allowed);
}

std::vector<BlockRows> blocks_of(const StepInputs& inputs, int32_t block) {
  std::vector<BlockRows> blocks;
  for (const RowSpan& span : inputs.spans) {
    int32_t last = -1;
    for (int64_t row = span.begin; row < span.begin + span.count; ++row) {
      const int32_t here = inputs.positions[static_cast<size_t>(row)] / block;
      if (here != last) blocks.push_back({row, 0});
      ++blocks.back().count;
      last = here;
    }
  }
  return blocks;
}

void choose_together(const Op& op, const float* scores, int64_t rows, const float* selection_bias, uint8_t* allowed) {
  const auto n = static_cast<size_t>(op.experts);
  std::vector<float> rank(n, routing::kOutOfRace);
  for (int64_t r = 0; r < rows; ++r, scores += n)
    for (size_t e = 0; e < n; ++e) {
      const float probability = 1.0f / (1.0f + expf(-scores[e]));
      rank[e] = std::max(rank[e], probability + (selection_bias != nullptr ? selection_bias[e] : 0.0f));
    }
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](int a, int b) {
    return routing::goes_before(rank[static_cast<size_t>(a)], a, rank[static_cast<size_t>(b)], b);
  };
  const auto chosen = order.begin() + op.capacity;
  std::nth_element(order.begin(), chosen - 1, order.end(), before);
  std::fill_n(allowed, n, uint8_t{0});
  std::for_each(order.begin(), chosen, [&](int e) { allowed[e] = 1; });
}

}  // namespace llada
