// Rows of a canvas of random tokens, once all their logits are there: a drawn token for each, and the soft tokens for
// the next forward.
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

// logits: of the whole vocabulary. chunks: the softmax sums of each `columns` of them, divided by the temperature as
// floats.
TemperedRow temper_row(std::span<const float> logits, double temperature, double draw,
                       std::span<const kernels::SoftmaxStats> chunks, int64_t columns);

// Appends a row to the predictions of a stream.
void append(Tempered& stream, const TemperedRow& row);

}  // namespace llada
