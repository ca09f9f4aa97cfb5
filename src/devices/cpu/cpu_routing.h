// A route op on the host.
#pragma once
#include <cstdint>
#include <vector>

#include "graph/program.h"

namespace llada {

// One row of a route op (program.h) by the rule (devices/routing_rule.h): op.experts scores -> op.experts gates.
// selection_bias may be null. allowed: of the row's block (BlockExperts), or null.
void route_row(const Op& op, const float* scores, const float* selection_bias, float* gates,
               const uint8_t* allowed = nullptr);

// For an op with a capacity: which rows are of one block.
struct BlockRows {
  int64_t begin = 0, count = 0;
};
std::vector<BlockRows> blocks_of(const StepInputs& inputs, int32_t block);

// allowed: 1 for each of the `op.capacity` experts that the rows choose together, else 0. An expert's rank is its
// highest of any row; ties go to the lower index. Scores that are not finite are ignored: their row is damaged.
void choose_together(const Op& op, const float* scores, int64_t rows, const float* selection_bias, uint8_t* allowed);

}  // namespace llada
