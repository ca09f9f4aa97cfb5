// Rows of an embedding table: those of tokens, and mixtures of them.
#pragma once
#include "base/threads.h"
#include "graph/step.h"
#include "tensor/view.h"

namespace llada {

// Row r of out (as many as the step has, as wide as the table) is the sum over its soft tokens of probability times the
// table's row. Rows whose stream has none are zeros. The sum runs over the tokens in their order, whoever is beside the
// row.
void embed_soft_tokens(ThreadPool& pool, const TensorView& table, const StepInputs& inputs, float* out);

}  // namespace llada
