// Rows of a canvas of random tokens, once all their logits are there: what is drawn of each, and which tokens the next
// forward is told of it.
#pragma once
#include <span>

#include "graph/step.h"
#include "kernels/kernels.h"

namespace llada {

struct TemperedRow {
  int32_t drawn = -1;  // as Tempered has it; -1 where a logit is not finite
  std::vector<int32_t> tokens = {};
  std::vector<float> probabilities = {};
};

// logits: of the whole vocabulary. chunks: what each `columns` of them, divided by the temperature as floats, sum to.
TemperedRow temper_row(std::span<const float> logits, double temperature, double draw,
                       std::span<const kernels::SoftmaxStats> chunks, int64_t columns);

// Puts together what a stream's predictions are.
void append(Tempered& stream, const TemperedRow& row);

}  // namespace llada
