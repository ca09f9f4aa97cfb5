#include "sched/moe_toll.h"

#include <algorithm>

namespace llada {
namespace {

constexpr double kPresent = 1.0 / 64;  // weight of the present layer
constexpr double kBetter = 0.99;       // of the time with the toll in force, which another must be below

}  // namespace

void LinkToll::play(Trial& trial, double toll, int32_t layer, std::span<const ExpertLoad> wanted,
                    std::span<const LayerAhead> ahead, double device_s, double between_s) const {
  const auto guessed = [&](ExpertId id) { return std::ranges::find(trial.there, id) != trial.there.end(); };
  std::vector<ExpertLoad> loads(wanted.begin(), wanted.end());
  for (ExpertLoad& load : loads) load.resident |= guessed({layer, load.expert});
  std::erase_if(trial.there, [&](ExpertId id) { return id.layer == layer; });
  double link_s = 0;
  const double layer_s =
      between_s + estimate_makespan(costs_, loads, MoeRule::hybrid, {.device_s = device_s, .toll = toll}, &link_s);
  trial.layer_s += (layer_s - trial.layer_s) * kPresent;
  trial.spent_s += std::max(0.0, layer_s - link_s);
  for (const LayerAhead& a : ahead)
    for (const ExpertLoad& load : a.loads) {
      const ExpertId id{a.layer, load.expert};
      if (load.resident || guessed(id)) continue;
      if (trial.there.size() < buffer_ && trial.spent_s < costs_.move_s()) return;
      if (trial.there.size() >= buffer_) break;
      trial.spent_s -= costs_.move_s();
      trial.there.push_back(id);
    }
  trial.spent_s = 0;  // nothing is left to move
}

void LinkToll::observe(int32_t layer, std::span<const ExpertLoad> wanted, std::span<const LayerAhead> ahead,
                       double device_s, double between_s) {
  for (size_t i = 0; i < kTolls.size(); ++i) play(trials_[i], kTolls[i], layer, wanted, ahead, device_s, between_s);
  for (size_t i = 0; i < kTolls.size(); ++i)
    if (trials_[i].layer_s < kBetter * trials_[best_].layer_s) best_ = i;
}

}  // namespace llada
