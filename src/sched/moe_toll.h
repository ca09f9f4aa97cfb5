// How dear the link is to a layer's own moves. A move for the layer at hand keeps the link from guesses of the layers
// behind. No plan of a single layer sees their worth: a link that guesses alone use for many layers may be the best. So
// tolls are tried beside each other in the cost model, on the routing as it comes. Each has a link and guesses of its
// own; all have the residents that there are. The toll that would have taken the least time lately is in force. Pure.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "devices/experts.h"
#include "sched/moe_plan.h"
#include "sched/moe_prefetch.h"

namespace llada {

class LinkToll {
 public:
  // buffer: experts that can be there on a guess.
  LinkToll(const ExpertCosts& costs, int32_t buffer) : costs_(costs), buffer_(static_cast<size_t>(buffer)) {}

  // See PlanStart::toll.
  double toll() const { return kTolls[best_]; }

  // A layer's loads and the guesses of the layers behind it, heaviest first. Resident are those in a slot, but no
  // guesses that have been moved. device_s, between_s: as in LayerClock.
  void observe(int32_t layer, std::span<const ExpertLoad> wanted, std::span<const LayerAhead> ahead, double device_s,
               double between_s);

 private:
  static constexpr std::array kTolls = {0.0, 0.35, 0.7, std::numeric_limits<double>::infinity()};
  struct Trial {
    std::vector<ExpertId> there;  // on a guess
    double spent_s = 0;           // by the link on the next guess
    double layer_s = 0;           // of a layer, lately
  };
  void play(Trial& trial, double toll, int32_t layer, std::span<const ExpertLoad> wanted,
            std::span<const LayerAhead> ahead, double device_s, double between_s) const;

  ExpertCosts costs_;
  size_t buffer_;
  std::array<Trial, kTolls.size()> trials_;
  size_t best_ = 0;
};

}  // namespace llada
