// The best of all plans of a layer, by branch and bound.
#pragma once
#include "sched/moe_plan.h"

namespace llada {

// All assignments and orders of few loads.
inline MoePlan best_plan(const ExpertCosts& costs, std::span<const ExpertLoad> loads, const PlanStart& start = {}) {
  std::vector<ExpertLoad> sorted(loads.begin(), loads.end());
  std::ranges::sort(sorted, std::greater<>(), &ExpertLoad::rows);
  const auto planned = [](const ExpertLoad& load, bool on_device) {
    return PlannedExpert{
        .expert = load.expert, .rows = load.rows, .on_device = on_device, .moved = on_device && !load.resident};
  };
  MoePlan best = plan_layer(costs, loads, MoeRule::hybrid, start);
  std::vector<bool> used(sorted.size(), false);
  std::vector<PlannedExpert> chosen;
  // Every subset for the accelerator in every order; the host's order does not change its end.
  const auto visit = [&](const auto& self) -> void {
    std::vector<PlannedExpert> experts = chosen;
    for (size_t i = sorted.size(); i-- > 0;)
      if (!used[i]) experts.push_back(planned(sorted[i], false));
    MoePlan plan = evaluate_plan(costs, std::move(experts), loads, start);
    if (plan.makespan_s < best.makespan_s) best = std::move(plan);
    double device_end = start.device_s;
    for (const PlannedExpert& e : chosen) device_end += costs.device_s(e.rows) - costs.device_joined_s();
    if (device_end >= best.makespan_s) return;  // one more only ends later
    for (size_t i = 0; i < sorted.size(); ++i) {
      if (used[i]) continue;
      used[i] = true;
      chosen.push_back(planned(sorted[i], true));
      self(self);
      chosen.pop_back();
      used[i] = false;
    }
  };
  visit(visit);
  return best;
}

}  // namespace llada
