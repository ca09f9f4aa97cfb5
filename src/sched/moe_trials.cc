#include "sched/moe_trials.h"

#include <algorithm>

namespace llada {
namespace {

constexpr double kForgotten = 1.0 / 64;  // of the time of the layers before, by each layer
constexpr double kBetter = 0.99;         // of the time of the way in force, which another must be below

}  // namespace

void MoeTrials::play(Trial& trial, double toll, int32_t layer, std::span<const ExpertLoad> wanted,
                     std::span<const LayerAhead> ahead, double device_s, double between_s) const {
  const auto guessed = [&](ExpertId id) { return std::ranges::find(trial.there, id) != trial.there.end(); };
  std::vector<ExpertLoad> loads(wanted.begin(), wanted.end());
  for (ExpertLoad& load : loads) load.resident |= guessed({layer, load.expert});
  std::erase_if(trial.there, [&](ExpertId id) { return id.layer == layer; });
  double link_s = 0;
  const double layer_s =
      between_s + estimate_makespan(costs_, loads, rule_, {.device_s = device_s, .toll = toll}, &link_s);
  trial.layers_s += layer_s - trial.layers_s * kForgotten;
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

void MoeTrials::observe(int32_t layer, std::span<const ExpertLoad> wanted, std::span<const LayerAhead> ahead,
                        double device_s, double between_s, double asking_s) {
  const size_t ways = rule_ == MoeRule::hybrid ? trials_.size() : 2;
  for (size_t i = 0; i < ways; ++i) {
    play(trials_[i], kTolls[i], layer, wanted, i > 0 ? ahead : std::span<const LayerAhead>(), device_s, between_s);
    if (i > 0) trials_[i].layers_s += asking_s;
  }
  for (size_t i = 1; i < ways; ++i)
    if (trials_[i].layers_s < kBetter * trials_[best_].layers_s) best_ = i;
  // Guesses come true now and again: until then they are given the time of an expert's move.
  if (trials_[0].layers_s + costs_.slices * costs_.move_s() < trials_[best_].layers_s) best_ = 0;
}

}  // namespace llada
