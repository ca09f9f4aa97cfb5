// What is counted for one example and summed over many: quality told three ways (the answer, agreement with
// the reference run, likelihood) beside cost.
#pragma once
#include <cstdint>
#include <span>
#include <utility>

#include "eval/likelihood.h"

namespace llada::eval {

struct Score {
  int64_t n = 0, right = 0, whole_right = 0;
  int64_t cut = 0;  // answers without an end token: the canvas ended first
  int64_t nfe = 0, rows = 0, committed = 0, content_tokens = 0;
  double seconds = 0;        // wall clock summed over examples; measured
  double cpu_seconds = 0;    // processor time of an example's thread: other programs on the machine hardly change it; 0
                             // where examples share forwards
  double table_seconds = 0;  // the same forwards by a latency table, where one was given: what they cost here
                             // without the noise of one run

  // Against the reference run of the same example; 0 compared when there was none.
  int64_t compared = 0;
  int64_t agreed = 0;          // equal answers, token for token, end included
  int64_t edit_distance = 0;   // token edit distances, summed
  int64_t won = 0, lost = 0;   // right where the reference is wrong, and the reverse
  Likelihood likelihood = {};  // of the responses; 0 tokens when not asked for

  void operator+=(const Score& other);
  double accuracy() const { return ratio(right, n); }
  double mean(int64_t sum) const { return ratio(sum, n); }
  static double ratio(int64_t a, int64_t b) { return b != 0 ? static_cast<double>(a) / static_cast<double>(b) : 0; }
};

// The 95 % score interval of a proportion (Wilson, 1927): sensible at 0 and 1, unlike the normal
// approximation.
std::pair<double, double> wilson95(int64_t right, int64_t n);

// Difference of two accuracies on the same n examples, second minus first, from the examples that only one of
// them answers, with its 95 % interval (Agresti and Min, "Simple improved confidence intervals for comparing
// matched proportions", 2005: one half is added to each of the four cells, so it is sensible at 0).
struct PairedDifference {
  double value = 0, low = 0, high = 0;
};
PairedDifference paired95(int64_t won, int64_t lost, int64_t n);

// Levenshtein distance: inserted, deleted and replaced tokens.
int64_t token_edit_distance(std::span<const int32_t> a, std::span<const int32_t> b);

}  // namespace llada::eval
