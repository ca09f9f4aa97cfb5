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
  int32_t beside = 1;  // experts that its layer wants in this step, itself among them
};
struct KnownRun {
  std::vector<std::vector<ExpertUse>> uses;
  int32_t steps = 0;
  int64_t places = 0;    // of the accelerator, for experts of all layers that are kept from step to step
  double between_s = 0;  // of the run, in which no expert is computed; moves go on
  double device_s = 0;   // of the accelerator's other work within the layers
};

// Seconds of the run that no schedule can beat, whichever experts it begins with, keeps and moves. They are a sum of
// the host's, the accelerator's and the link's time, with weights that keep it below the longest of them. `costs` are
// of whole experts; divisible: plans that divide experts count, too.
double known_run_lower_bound(const ExpertCosts& costs, const KnownRun& run, bool divisible);

}  // namespace llada
