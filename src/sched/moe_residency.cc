#include "sched/moe_residency.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace llada {

double routing_similarity(std::span<const int32_t> a, std::span<const int32_t> b) {
  LLADA_CHECK(a.size() == b.size());
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return aa > 0 && bb > 0 ? dot / std::sqrt(aa * bb) : 0;
}

BlockResidency::BlockResidency(int32_t layers, int32_t experts, int32_t slots, ResidencyRule rule)
    : slots_(slots), rule_(rule), layers_(static_cast<size_t>(layers)) {
  for (Layer& l : layers_) {
    l.load.assign(static_cast<size_t>(experts), 0);
    l.planned_for.assign(static_cast<size_t>(experts), 0);
    l.in_target.assign(static_cast<size_t>(experts), false);
  }
}

void BlockResidency::begin_block() {
  for (Layer& l : layers_) l.interval = 1, l.since = 0, l.fresh = true;
}

bool BlockResidency::observe(int32_t layer, const LayerRouting& routing) {
  Layer& l = at(layer);
  LLADA_CHECK(routing.rows.size() == l.load.size());
  for (size_t e = 0; e < l.load.size(); ++e) l.load[e] = l.fresh ? routing.rows[e] : (l.load[e] + routing.rows[e]) / 2;
  const bool due = l.fresh || ++l.since >= l.interval;
  if (!due) return false;
  if (!l.fresh) {
    const bool alike = routing_similarity(routing.rows, l.planned_for) >= rule_.alike;
    l.interval = alike ? std::min(2 * l.interval, rule_.longest) : 1;
  }
  l.fresh = false;
  l.since = 0;
  l.planned_for = routing.rows;
  std::vector<int32_t> order(l.load.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](int32_t e) { return l.load[static_cast<size_t>(e)]; });
  l.in_target.assign(l.load.size(), false);
  for (const int32_t e :
       std::span(order).first(static_cast<size_t>(std::min(slots_, static_cast<int32_t>(order.size())))))
    l.in_target[static_cast<size_t>(e)] = l.load[static_cast<size_t>(e)] > 0;
  return true;
}

bool BlockResidency::replaces(ExpertId newcomer, ExpertId resident) const {
  return !wanted(resident) && load(newcomer) > rule_.margin * load(resident);
}

}  // namespace llada
