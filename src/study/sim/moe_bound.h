// The shortest time that any plan could need for a layer's experts: plans are judged by it.
#pragma once
#include <span>

#include "sched/moe_plan.h"

namespace llada {

// A makespan that no plan can beat, from these residents. It has every timeline's work and the reads from the shared
// memory, each as if the others never made it wait. divisible: plans that divide experts count, too.
double plan_lower_bound(const ExpertCosts& costs, std::span<const ExpertLoad> loads, const PlanStart& start = {},
                        bool divisible = false);

}  // namespace llada
