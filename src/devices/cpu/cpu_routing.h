// A route op on the host.
#pragma once
#include "graph/program.h"

namespace llada {

// One row of a route op (program.h) by the rule (devices/routing_rule.h): op.experts scores -> op.experts gates.
// selection_bias: op.experts values or null.
void route_row(const Op& op, const float* scores, const float* selection_bias, float* gates);

}  // namespace llada
