// Which experts of the next layers to move while the link is idle. The routers of the next layers get the present
// hidden state, which changes slowly from layer to layer. So their answers are a guess of the experts that those layers
// will choose. A layer's heaviest missing expert is worth the time by which its plan gets shorter with it there; the
// most valuable of the layers goes first. Source: HybriMoE (arXiv 2504.05897). Pure.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "devices/experts.h"
#include "sched/moe_plan.h"

namespace llada {

struct LayerAhead {
  int32_t layer = 0;
  std::vector<ExpertLoad> loads;  // guessed, the surest first among equally heavy ones; resident as things stand
  double begins_s = 0;            // from now, when that layer's experts will be planned
  double device_s = 0;            // of work that the accelerator has before its experts
};

struct PrefetchChoice {
  ExpertId id;
  double gain_s = 0;
};

struct PrefetchOptions {
  double trust = 0.8;  // in a guess, per layer of distance: gains are discounted by it
  int32_t most = 4;    // chosen at once
  double toll = 0;     // as in PlanStart
};

// link_free_s: from now, when the link could begin. A move that would arrive late counts as arriving late.
// Chosen in the order in which they are to be moved; empty where nothing gains.
std::vector<PrefetchChoice> choose_prefetch(const ExpertCosts& costs, std::span<const LayerAhead> ahead,
                                            double link_free_s, MoeRule rule, const PrefetchOptions& options = {});

}  // namespace llada
