// The contract between canvas, strategy and runner, checked in every step: it costs nothing beside a forward,
// and a broken side is named at once instead of spoiling the text. Errors are `failed`: none of it is the
// user's doing.
#pragma once
#include <span>

#include "base/error.h"
#include "decode/types.h"

namespace llada::decode {

// Checks that rows and logits are strictly ascending and inside [0, keys), keys are inside the canvas, logits are a
// subset of rows, every row has one input (with guidance also an unconditional one), and the block is inside the
// canvas. Rows may be empty only where there are trials. A trial's rows obey the same rules and hold its logits row.
// Sparse rows are none of the rows. Drafts are such plans without trials, sparse plan and drafts.
Status check_plan(const StepPlan& plan, const Canvas& canvas);

// Checks that there is one prediction per asked row, in order, with a token that is not the mask, finite numbers and a
// probability in [0, 1]; the same for trials.
Status check_result(const StepPlan& plan, const Canvas& canvas, const StepResult& result);

// Checks that edits are strictly ascending, change only positions that are masked or visible, and write the mask token
// exactly where the state becomes masked.
Status check_edits(const Canvas& canvas, std::span<const Edit> edits);

}  // namespace llada::decode
