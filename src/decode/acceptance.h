// Acceptance rules: which of a step's candidates are committed. Each takes the candidates in ascending
// position, commits at least one (none only of none), decides ties for the lowest position, and returns
// indices in ascending order.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "decode/options.h"

namespace llada::decode {

struct Candidate {
  int32_t position = 0;
  int32_t token = -1;
  double score = 0;        // what the rule orders by, higher first: the probability, or a random number
  double probability = 0;  // of the token in the clean softmax
  double entropy = 0;      // nats
  double margin = 0;       // of the probability over the second best
  int64_t repeats = 1;     // forwards in a row, up to this one, that predicted this token here
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

// Reads from the left: as long as every mask so far was taken, a score strictly above `anchored` suffices;
// behind the first that was not, it takes one strictly above the threshold. And the highest, in any case.
// Text hangs together mostly leftwards: what stands before a gap is known to hold still, what stands behind
// it may move when the gap is filled.
std::vector<size_t> accept_anchored(std::span<const Candidate> candidates, double threshold, double anchored);

// Every score strictly above the threshold, every one strictly above `settled` whose token has been predicted
// `steps` times in a row, and the highest. A token that survives a change of its surroundings has shown what
// a single forward cannot: that it does not hang on what was undecided then.
std::vector<size_t> accept_settled(std::span<const Candidate> candidates, double threshold, double settled,
                                   int64_t steps);

// How many masks Dream's step `step` of `steps` (from 0) reveals of `masks` that are left: with t falling
// linearly from 1 to eps = 0.001, floor(masks (1 - t[step + 1] / t[step])), all in the last step. It may be
// none.
int64_t dream_count(int64_t masks, int64_t steps, int64_t step);

// The first step from `step` on that reveals any of the masks that are left (at least one). The published
// loop runs a forward in the steps before it as well; they leave the canvas as it is, so the next forward
// would predict the same, and here they take none.
int64_t dream_step(int64_t masks, int64_t steps, int64_t step);

// Where in its block's schedule a step stands.
struct ScheduleStep {
  int64_t masks = 0;   // of the block when the run started
  int64_t length = 0;  // positions of a block, those of the prompt included: what LLaDA2 divides by the steps
  int64_t steps = 1;   // share of the block
  int64_t step = 0;    // of the block's schedule, from 0
};

// The rule of the options; candidates are the masks that are left. Of Dream's rules, `step` is one that
// reveals something (dream_step).
std::vector<size_t> choose(const DecodeOptions& options, std::span<const Candidate> candidates,
                           const ScheduleStep& at);

}  // namespace llada::decode
