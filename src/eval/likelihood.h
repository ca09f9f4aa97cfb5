// The model's own judgement of a response: its pseudo-log-likelihood (Salazar et al., "Masked Language Model
// Scoring", ACL 2020, arXiv 1910.14659). Each token is masked alone, the model predicts it from everything
// else, and the logarithms of the probabilities of the tokens that stood there are summed.
//
// What is scored here: the answer and its end token, on a canvas of the prompt and these tokens and nothing
// behind them, by full forwards at temperature 1 with no token excluded from the softmax. With `groups` > 0
// masks are shared: token i of the response is masked in forward i mod groups together with its group, so a
// response costs at most `groups` forwards; a token then also misses its group's tokens, so values with
// different groups do not compare.
//
// A block-causal model predicts a token from its own block and those before it only, so its values do not compare
// with those of models that see the whole response.
//
// What it cannot tell: a fluent wrong answer from a right one, and text that repeats itself scores well.
#pragma once
#include <cstdint>
#include <span>

#include "engine/session.h"

namespace llada::eval {

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

}  // namespace llada::eval
