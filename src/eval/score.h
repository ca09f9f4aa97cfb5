// Quality and cost of one example, or summed over many. Quality is measured in three ways: right answers, agreement
// with the reference run, likelihood.
#pragma once
#include <cstdint>
#include <span>
#include <utility>

#include "engine/session.h"

namespace llada::eval {

// The model's own judgement of a response: its pseudo-log-likelihood (Salazar et al., "Masked Language Model
// Scoring", ACL 2020, arXiv 1910.14659). Each token is masked alone, the model predicts it from everything
// else, and the logarithms of the probabilities of the tokens that stood there are summed.
//
// The answer and its end token are scored, on a canvas of the prompt and these tokens and nothing behind them. Forwards
// are full ones at temperature 1 with no token excluded from the softmax. With `groups` > 0 masks are shared: token i
// of the response is masked in forward i mod groups together with its group. So a response costs at most `groups`
// forwards. A token then also misses its group's tokens, so values with different groups do not compare.
//
// A block-causal model predicts a token from its own block and those before it only, so its values do not compare
// with those of models that see the whole response.
//
// It cannot tell a fluent wrong answer from a right one, and text that repeats itself scores well.
struct Likelihood {
  double log_probability = 0;  // summed over tokens, nats
  int64_t tokens = 0;          // scored

  void operator+=(const Likelihood& other) {
    log_probability += other.log_probability;
    tokens += other.tokens;
  }
  double per_token() const { return tokens > 0 ? log_probability / static_cast<double>(tokens) : 0; }
};

// groups 0: every token alone. A response without tokens gives {0, 0}.
Result<Likelihood> pseudo_log_likelihood(Session& session, std::span<const int32_t> prompt,
                                         std::span<const int32_t> response, int64_t groups);

struct Score {
  int64_t n = 0, right = 0, whole_right = 0;
  int64_t cut = 0;  // answers without an end token: the canvas ended first
  int64_t nfe = 0, rows = 0, committed = 0, content_tokens = 0;
  double seconds = 0;      // wall clock summed over examples; measured
  double cpu_seconds = 0;  // processor time of the examples' threads; 0 where examples share forwards
  // The time of the same forwards by a latency table, where one was given: without the noise of a single run.
  double table_seconds = 0;

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

// Difference of two accuracies on the same n examples, second minus first, with its 95 % interval. It is computed from
// the examples that only one of them answers. Source: Agresti and Min, "Simple improved confidence intervals for
// comparing matched proportions", 2005. One half is added to each of the four cells, so it is sensible at 0.
struct PairedDifference {
  double value = 0, low = 0, high = 0;
};
PairedDifference paired95(int64_t won, int64_t lost, int64_t n);

// Levenshtein distance: inserted, deleted and replaced tokens.
int64_t token_edit_distance(std::span<const int32_t> a, std::span<const int32_t> b);

}  // namespace llada::eval
