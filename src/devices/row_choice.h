// Which rows go on behind a choose_rows op, as one text for all devices that choose: sums and comparisons have one
// order. The rule is that of FOCUS (arXiv 2601.23278, and its published code), but for the number of rows: there it
// depends on the scores, here it is given, so that a program has one shape.
//
// What a candidate receives: the scores of the candidates' queries against the candidates' keys, per head; each score
// becomes the largest of itself and its two neighbours among the candidates; softmax over the candidates; summed over
// heads and queries. Rows that are no candidates take no part, and neither do stored keys.
//
// Who goes on: candidates by what they gained, highest first (a NaN before all, ties by position). With each, where
// there is room, the candidate at the position before it, whether it gained or not: what it says is read there first.
// From the stream's frontier on nobody goes on before all candidates between it and the frontier do; one for whom there
// is no room with them gives way to the next, and room that is left in the end goes to the first behind the frontier.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "graph/step.h"

namespace llada {

struct RowSets;

// Of one stream that chooses.
struct Candidates {
  int32_t stream = 0;
  int32_t first = 0;          // its candidates are wanted rows [first, first + rows.size()) of the step
  std::vector<int32_t> rows;  // of all rows, ascending
  int32_t keep = 0, frontier = INT32_MAX;
};
std::vector<Candidates> candidates_of(const StepInputs& inputs);

// One head's part: adds to sums[i] what candidate i receives, in double. q and k are rows of all rows, `dim` floats of
// the head from the pointer on, so many floats apart.
struct HeadRows {
  const float *q = nullptr, *k = nullptr;
  int64_t q_stride = 0, k_stride = 0, dim = 0;
  double scale = 0;
};
void add_received(const HeadRows& head, std::span<const int32_t> candidates, std::span<double> sums);

// Indices of the candidates that go on, ascending: `keep` of them. positions and gains: by candidate.
std::vector<int32_t> choose(std::span<const float> gains, std::span<const int32_t> positions, int32_t keep,
                            int32_t frontier = INT32_MAX);

// Of a whole step: indices into its wanted rows. scores, before: by row of all rows.
std::vector<int32_t> choose_rows(const StepInputs& inputs, const float* scores, const float* before);

}  // namespace llada
