// The shortest time that any plan could need for a layer's experts: plans are judged by it.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sched/moe_plan.h"

namespace llada {

// A makespan that no plan can beat, from these residents. It has every timeline's work and the reads from the shared
// memory, each as if the others never made it wait. divisible: plans that divide experts count, too.
double plan_lower_bound(const ExpertCosts& costs, std::span<const ExpertLoad> loads, const PlanStart& start = {},
                        bool divisible = false);

// The work of a schedule that knows all routing to come. `uses` has a list for each expert of each layer: its
// uses in the order of the steps.
struct ExpertUse {
  int32_t step = 0, rows = 0;
};
struct KnownRun {
  std::vector<std::vector<ExpertUse>> uses;
  // One layer of one step: each unit's time for all of its experts, and the accelerator's for other work.
  struct Layer {
    double host_s = 0, device_s = 0, other_s = 0;
  };
  std::vector<Layer> layers;
  int32_t steps = 0;
  int64_t places = 0;    // of the accelerator, for experts of all layers that are kept from step to step
  double between_s = 0;  // of the run, in which no expert is computed; moves go on
};

// Adds an expert's use to its list and its times to the layer's.
void add_use(const ExpertCosts& costs, const ExpertUse& use, std::vector<ExpertUse>& uses, KnownRun::Layer& layer);

// Seconds of the run that no schedule can beat, whichever experts it begins with, keeps, moves and divides. They are a
// sum of the layers' and the link's time, with weights that keep it below the longer of them. `costs` are of whole
// experts.
double known_run_lower_bound(const ExpertCosts& costs, const KnownRun& run);

}  // namespace llada
