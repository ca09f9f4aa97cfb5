// Acceptance rules: which of a step's candidates are committed. Each takes the candidates in ascending
// position, commits at least one (none only of none), decides ties for the lowest position, and returns
// indices in ascending order.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace llada::decode {

struct Candidate {
  int32_t position = 0;
  int32_t token = -1;
  double score = 0;        // what the rule orders by, higher first: the probability, or a random number
  double probability = 0;  // of the token in the clean softmax
  double entropy = 0;      // nats
};

// The n highest scores.
std::vector<size_t> accept_best(std::span<const Candidate> candidates, int64_t n);

// Every score strictly above the threshold, and the highest.
std::vector<size_t> accept_above(std::span<const Candidate> candidates, double threshold);

// Best first, the n-th score (from 1) must be >= 1 - factor / (n + 1); the first failure ends the prefix, the
// best is exempt. The published Fast-dLLM code also takes the last candidate when it is the only one to fail;
// its paper does not, and neither do we.
std::vector<size_t> accept_factor(std::span<const Candidate> candidates, double factor);

// Lowest entropy first, as long as the entropies of those before sum to at most bound. That is sum(H) -
// max(H) <= bound over the accepted ones: a bound on what deciding them together instead of one by one can
// cost.
std::vector<size_t> accept_entropy(std::span<const Candidate> candidates, double bound);

}  // namespace llada::decode
