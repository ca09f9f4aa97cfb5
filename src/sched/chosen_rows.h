// Which rows of a step went on, where streams choose (Stream::keep).
#pragma once
#include <vector>

#include "base/error.h"
#include "graph/step.h"

namespace llada {

// Of each wanted row its stream.
std::vector<int32_t> streams_of_wanted(const StepInputs& inputs);

// Candidates that will not go on, of all streams.
int64_t candidates_left_behind(const StepInputs& inputs);

// Indices into the step's predictions, ascending: all, or those whose rows the device says it chose. Failed: it chose
// others than it was asked for.
Result<std::vector<size_t>> predictions_that_went_on(const StepInputs& inputs, const StepOutputs& outputs);

// By row: computed by the first layers only. The outputs have passed predictions_that_went_on().
std::vector<bool> rows_left_behind(const StepInputs& inputs, const StepOutputs& outputs);

}  // namespace llada
