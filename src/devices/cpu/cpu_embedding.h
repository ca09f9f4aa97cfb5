// Rows of an embedding table: those of tokens, and mixtures of them.
#pragma once
#include "base/threads.h"
#include "graph/step.h"
#include "tensor/view.h"

namespace llada {

// out: rows of the step x width of the table. Row r is the sum over its soft tokens of probability times the table's
// row, in the tokens' order. Rows whose stream has no soft tokens are zeros.
void embed_soft_tokens(ThreadPool& pool, const TensorView& table, const StepInputs& inputs, float* out);

}  // namespace llada
