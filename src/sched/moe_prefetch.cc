#include "sched/moe_prefetch.h"

#include <algorithm>

namespace llada {
namespace {

struct Layer {
  const LayerAhead* ahead;
  std::vector<ExpertLoad> loads;
  double makespan = 0, trust = 1;
};

double makespan(const ExpertCosts& costs, const Layer& layer, MoeRule rule) {
  return estimate_makespan(costs, layer.loads, rule, {.host_s = 0, .device_s = layer.ahead->device_s, .link_s = 0});
}

}  // namespace

std::vector<PrefetchChoice> choose_prefetch(const ExpertCosts& costs, std::span<const LayerAhead> ahead,
                                            double link_free_s, MoeRule rule, const PrefetchOptions& options) {
  std::vector<Layer> layers;
  double trust = 1;
  for (const LayerAhead& a : ahead) {
    trust *= options.trust;
    Layer layer{&a, a.loads, 0, trust};
    // Heaviest first: those are asked about.
    std::ranges::stable_sort(layer.loads, std::greater<>(), &ExpertLoad::rows);
    layer.makespan = makespan(costs, layer, rule);
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
      int32_t asked = 0, last = -1;
      for (ExpertLoad& load : layer.loads) {
        // One missing slice of an expert is worth as much as the next.
        if (load.resident || (last >= 0 && costs.same_expert(last, load.expert))) continue;
        if (asked++ >= options.candidates) break;
        last = load.expert;
        const ExpertLoad before = load;
        load.resident = true;
        load.ready_s = std::max(0.0, arrival - layer.ahead->begins_s);
        const double with = makespan(costs, layer, rule);
        load = before;
        const double gain = (layer.makespan - with) * layer.trust;
        // Less than a thousandth of the move is rounding, not a gain.
        if (gain <= best_gain || gain < 1e-3 * costs.move_s()) continue;
        best_gain = gain, best_makespan = with, best_layer = &layer, best_load = &load;
      }
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
