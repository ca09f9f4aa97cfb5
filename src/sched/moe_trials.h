// Whether guesses pay, and how dear the link is to a layer's own moves. A move for the layer at hand keeps the link
// from guesses of the layers behind. No plan of a single layer sees their worth. A link that guesses alone use for many
// layers may be the best, and so may one without guesses, as asking for them takes time. So ways of using the link are
// tried beside each other in the cost model, on the routing as it comes. Each has a link and guesses of its own; all
// have the residents that there are. The way that would have taken the least time lately is in force. Pure.
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

class MoeTrials {
 public:
  // buffer: experts that can be there on a guess.
  MoeTrials(const ExpertCosts& costs, MoeRule rule, int32_t buffer)
      : costs_(costs), rule_(rule), buffer_(static_cast<size_t>(buffer)) {}

  bool guesses() const { return best_ > 0; }
  double toll() const { return kTolls[best_]; }  // see PlanStart::toll

  // A layer's loads and the guesses of the layers behind it, heaviest first. Resident are those in a slot, but no
  // guesses that have been moved. device_s, between_s: as in LayerClock. asking_s: that the guesses took.
  void observe(int32_t layer, std::span<const ExpertLoad> wanted, std::span<const LayerAhead> ahead, double device_s,
               double between_s, double asking_s);

 private:
  static constexpr std::array kTolls = {0.0, 0.0, 0.35, 0.7, std::numeric_limits<double>::infinity()};  // 0: no guesses
  struct Trial {
    std::vector<ExpertId> there;  // on a guess
    double spent_s = 0;           // by the link on the next guess
    double layers_s = 0;          // of the last layers
  };
  void play(Trial& trial, double toll, int32_t layer, std::span<const ExpertLoad> wanted,
            std::span<const LayerAhead> ahead, double device_s, double between_s) const;

  ExpertCosts costs_;
  MoeRule rule_;
  size_t buffer_;
  std::array<Trial, kTolls.size()> trials_;
  size_t best_ = 1;
};

}  // namespace llada
