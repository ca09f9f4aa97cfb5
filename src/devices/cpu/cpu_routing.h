// Which experts a row goes to, and with what weight.
#pragma once
#include "graph/program.h"

namespace llada {

// One row of a route op (program.h): op.experts scores -> op.experts gates, 0 where not chosen.
// selection_bias: op.experts values or null. Ties go to the lower index. Routers are sensitive, so everything
// is F32 and sums run in double. A chosen expert whose gate rounds to 0 counts as not chosen.
void route_row(const Op& op, const float* scores, const float* selection_bias, float* gates);

}  // namespace llada
