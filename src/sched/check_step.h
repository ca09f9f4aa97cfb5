// A step's own consistency, so that devices may index by what stands in it: spans cover the rows, positions and ranges
// lie in their stores, predictions name wanted rows of one stream.
#pragma once
#include "base/error.h"
#include "graph/program.h"

namespace llada {

// needed: what the program wants of a store; none is looked at where it wants none. Time: rows and streams.
Status check_step(const StepInputs& inputs, const KvGeometry& needed);

}  // namespace llada
