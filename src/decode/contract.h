// The contract between canvas, strategy and runner, checked in every step: it costs nothing beside a forward,
// and a broken side is named at once instead of spoiling the text. Errors are `failed`: none of it is the
// user's doing.
#pragma once
#include <span>

#include "base/error.h"
#include "decode/types.h"

namespace llada::decode {

// rows and logits strictly ascending and inside [0, keys), keys inside the canvas, logits and probes subsets of
// rows, one input (and with guidance one unconditional input) per row, the block inside the canvas. Rows only
// lack where there are trials; a trial's rows obey the same rules and hold its logits row; sparse rows are
// none of the rows.
Status check_plan(const StepPlan& plan, const Canvas& canvas);

// One prediction per asked row, in order; a token that is not the mask; finite numbers, a probability in
// [0, 1]. The same for trials, and a finite drift.
Status check_result(const StepPlan& plan, const Canvas& canvas, const StepResult& result);

// Strictly ascending, only positions that are masked or visible, the mask token exactly with the state
// masked.
Status check_edits(const Canvas& canvas, std::span<const Edit> edits);

}  // namespace llada::decode
