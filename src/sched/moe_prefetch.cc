#include "sched/moe_prefetch.h"

#include <algorithm>

namespace llada {
namespace {

struct Layer {
  const LayerAhead* ahead;
  std::vector<ExpertLoad> loads;
  double makespan = 0, trust = 1;
};

double makespan(const ExpertCosts& costs, const Layer& layer, MoeRule rule, double toll) {
  return estimate_makespan(costs, layer.loads, rule, {.device_s = layer.ahead->device_s, .toll = toll});
}

}  // namespace

std::vector<PrefetchChoice> choose_prefetch(const ExpertCosts& costs, std::span<const LayerAhead> ahead,
                                            double link_free_s, MoeRule rule, const PrefetchOptions& options) {
  std::vector<Layer> layers;
  double trust = 1;
  for (const LayerAhead& a : ahead) {
    trust *= options.trust;
    Layer layer{&a, a.loads, 0, trust};
    // Heaviest first: the first that is missing is asked about.
    std::ranges::stable_sort(layer.loads, std::greater<>(), &ExpertLoad::rows);
    layer.makespan = makespan(costs, layer, rule, options.toll);
    layers.push_back(std::move(layer));
  }
  std::vector<PrefetchChoice> chosen;
  double link = link_free_s;
  while (static_cast<int32_t>(chosen.size()) < options.most) {
    const double arrival = link + costs.move_s();
    double best_gain = 0, best_makespan = 0;
    Layer* best_layer = nullptr;
    ExpertLoad* best_load = nullptr;
    for (Layer& layer : layers) {
      // A lighter one, or another slice of the same expert, is worth no more.
      const auto missing = std::ranges::find(layer.loads, false, &ExpertLoad::resident);
      if (missing == layer.loads.end()) continue;
      ExpertLoad& load = *missing;
      load.resident = true;
      load.ready_s = std::max(0.0, arrival - layer.ahead->begins_s);
      const double with = makespan(costs, layer, rule, options.toll);
      load.resident = false, load.ready_s = 0;
      const double gain = (layer.makespan - with) * layer.trust;
      // Less than a thousandth of the move is rounding, not a gain.
      if (gain <= best_gain || gain < 1e-3 * costs.move_s()) continue;
      best_gain = gain, best_makespan = with, best_layer = &layer, best_load = &load;
    }
    if (best_layer == nullptr) break;
    best_load->resident = true;
    best_load->ready_s = std::max(0.0, arrival - best_layer->ahead->begins_s);
    best_layer->makespan = best_makespan;
    chosen.push_back({{best_layer->ahead->layer, best_load->expert}, best_gain});
    link = arrival;
  }
  return chosen;
}

}  // namespace llada
