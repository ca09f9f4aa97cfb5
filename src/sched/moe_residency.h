// Which experts a block of a diffusion model should have on the accelerator. A step routes a whole block, and the next
// step routes it almost alike (TIDE, arXiv 2605.20179, measured a cosine above 0.95 five steps apart). So the set is
// planned per block from the loads, and planned again only every k steps. k doubles while the routing stays as it was
// when the set was planned, and falls back to one when it changes. Rows that are final and not computed any more do not
// route and do not count. Pure.
//
// Where every step touches nearly every expert, sets differ by their load alone: the heaviest experts are kept and the
// rest goes through staging slots. That is the plan of memory/residency.h for a cyclic scan: a rule that replaces on
// every miss would replace just the experts that are needed next.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sched/moe_cache.h"

namespace llada {

// Cosine of two load vectors; 0 where one is empty.
double routing_similarity(std::span<const int32_t> a, std::span<const int32_t> b);

struct ResidencyRule {
  double alike = 0.9;    // cosine from which the set is kept for twice as long
  int32_t longest = 16;  // steps between two plans
  double margin = 1.25;  // a newcomer must carry this many times the rows of the expert that it replaces
};

class BlockResidency {
 public:
  BlockResidency(int32_t layers, int32_t experts, int32_t slots, ResidencyRule rule = {});

  void begin_block();  // the next step is the first of a block
  // One step's routing of a layer. True: the set of this layer is due and has been planned anew.
  bool observe(int32_t layer, const LayerRouting& routing);

  bool wanted(ExpertId id) const { return at(id.layer).in_target[static_cast<size_t>(id.expert)]; }
  // Whether the newcomer should take the resident's place. Experts of the planned set stay; others make room for any
  // expert that carries more rows, without waiting for the next plan.
  bool replaces(ExpertId newcomer, ExpertId resident) const;
  double load(ExpertId id) const { return at(id.layer).load[static_cast<size_t>(id.expert)]; }

 private:
  struct Layer {
    std::vector<double> load;          // rows per step, the latest counting half
    std::vector<int32_t> planned_for;  // loads of the step in which the set was planned
    std::vector<bool> in_target;
    int32_t interval = 1, since = 0;
    bool fresh = true;
  };
  Layer& at(int32_t layer) { return layers_[static_cast<size_t>(layer)]; }
  const Layer& at(int32_t layer) const { return layers_[static_cast<size_t>(layer)]; }

  int32_t slots_;
  ResidencyRule rule_;
  std::vector<Layer> layers_;
};

}  // namespace llada
