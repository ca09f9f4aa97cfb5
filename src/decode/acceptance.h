// Acceptance rules: which of a step's candidates are committed. Each takes candidates in ascending position, commits at
// least one where there is one, decides ties for the lowest position, and returns indices in ascending order.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "decode/choice.h"

namespace llada::decode {

struct Field;

enum class Acceptance {
  schedule,       // a fixed number per step, the most probable, so that the block is done in its share of `steps`
  random,         // the same number, in a random order that depends on the seed (LLaDA's remasking "random")
  threshold,      // every confidence that is `threshold` or more (above it with edit), and always the best one
  factor,         // the longest prefix, best first, whose n-th confidence is >= 1 - factor / (n + 1)
  entropy,        // the longest prefix, lowest entropy first, whose earlier entropies sum to at most entropy_bound
  llada2,         // every confidence strictly above `threshold`; where fewer than the schedule's number, that number.
                  // Where row i - 1 predicts position i, the first token of a block is taken alone (Fast-dLLM v2)
  dream_entropy,  // Dream's timestep schedule, lowest entropy first
  dream_margin,   // the same, largest margin between the best and the second best first
  dream_maskgit,  // the same, highest probability first ("maskgit_plus")
  rnd1,           // of the block's masks floor(masks x steps left / steps) stay, those of the highest entropy (RND1)
  wedlm,   // every one with entropy + kEntropyOfDistance * (positions behind the first candidate) < entropy_bound;
           // where there is none, the one with the least sum (WeDLM)
  causal,  // the tokens that a causal forward over all predictions confirms, left to right (self_speculation.h)
};

constexpr bool is_dream(Acceptance a) {
  return a == Acceptance::dream_entropy || a == Acceptance::dream_margin || a == Acceptance::dream_maskgit;
}

// In the order of Acceptance, as help and refusals list them.
inline constexpr std::string_view kAcceptanceWords[] = {"schedule",      "random", "threshold",     "factor",
                                                        "entropy",       "llada2", "dream-entropy", "dream-margin",
                                                        "dream-maskgit", "rnd1",   "wedlm",         "causal"};
constexpr Words words(Acceptance) { return kAcceptanceWords; }

// Rules whose number of commits per step follows a schedule.
constexpr bool has_schedule(Acceptance a) {
  return a == Acceptance::schedule || a == Acceptance::random || a == Acceptance::llada2 || a == Acceptance::rnd1 ||
         is_dream(a);
}

// Rules that read the probability; the others, which are named here, read entropy, margin or nothing.
constexpr bool reads_probability(Acceptance a) {
  return a != Acceptance::random && a != Acceptance::entropy && a != Acceptance::dream_entropy &&
         a != Acceptance::dream_margin && a != Acceptance::rnd1 && a != Acceptance::wedlm && a != Acceptance::causal;
}

constexpr unsigned rule_bit(Acceptance rule) { return 1u << static_cast<unsigned>(rule); }
// Rules that read `threshold`.
inline constexpr unsigned kThresholdRules = rule_bit(Acceptance::threshold) | rule_bit(Acceptance::llada2);
// Rules that read `entropy_bound`.
inline constexpr unsigned kEntropyRules = rule_bit(Acceptance::entropy) | rule_bit(Acceptance::wedlm);

inline constexpr double kEntropyOfDistance = 0.02;  // nats; WeDLM's published default

struct AcceptanceOptions {
  Acceptance acceptance = Acceptance::schedule;
  double threshold = 0.9;      // in (0, 1]; with revision dual_path, the probability that makes a token visible
  double factor = 1;           // > 0
  double entropy_bound = 0.1;  // nats, >= 0
  double entropy_gate = 0;     // nats, > 0: most uncertainty that an accepted token may leave on its left
};
std::span<const Field> acceptance_fields();

struct Candidate {
  int32_t position = 0;
  int32_t token = -1;
  double score = 0;        // the order of the rule, higher first: the probability, or a random number
  double probability = 0;  // of the token in the clean softmax
  double entropy = 0;      // nats
  double margin = 0;       // of the probability over the second best
};

// The n highest scores.
std::vector<size_t> accept_best(std::span<const Candidate> candidates, int64_t n);

// Every score that is the threshold or more, and the highest, as in Fast-dLLM and dInfer.
std::vector<size_t> accept_from(std::span<const Candidate> candidates, double threshold);
// Every score strictly above the threshold, and the highest, as in the published samplers of LLaDA2.0 and of LLaDA2.1,
// which edits.
std::vector<size_t> accept_above(std::span<const Candidate> candidates, double threshold);

// Takes candidates best first as long as the n-th score (from 1) is at least 1 - factor / (n + 1); the best one is
// taken in any case. The published Fast-dLLM code also takes the last candidate when it is the only one to fail. Its
// paper does not, and neither does this.
std::vector<size_t> accept_factor(std::span<const Candidate> candidates, double factor);

// Takes candidates by entropy, lowest first, as long as the entropies of those before sum to at most `bound`. So the
// accepted ones have sum(H) - max(H) <= bound, which bounds the loss from deciding them together, not one by one.
std::vector<size_t> accept_entropy(std::span<const Candidate> candidates, double bound);

// The rule wedlm.
std::vector<size_t> accept_near(std::span<const Candidate> candidates, double bound);

// Keeps of `taken` (ascending indices) the candidates with at most `gate` nats of entropy on their left: summed over
// the candidates there that were not taken. Where none stays, keeps the highest score among all that have so little.
// The text left of a token decides about it most, so the token waits while much of that is open. (RPD falls back to the
// best of all, from which most of our wrong tokens came: docs/lab/long-answers.md.)
std::vector<size_t> gate_entropy(std::span<const Candidate> candidates, std::vector<size_t> taken, double gate);

// How many of the `masks` that are left Dream reveals in step `step` (from 0) of `steps`. With t falling linearly from
// 1 to eps = 0.001 it is floor(masks (1 - t[step + 1] / t[step])), and all in the last step. It may be 0.
int64_t dream_count(int64_t masks, int64_t steps, int64_t step);

// The first step from `step` on that reveals a mask (at least one is left). The published loop also runs forwards in
// the steps before it. They are skipped here: they leave the canvas as it is, so the next one would predict the same.
int64_t dream_step(int64_t masks, int64_t steps, int64_t step);

// Where in its block's schedule a step stands.
struct ScheduleStep {
  int64_t masks = 0;   // of the block when the run started
  int64_t length = 0;  // positions of a block, those of the prompt included: LLaDA2 divides them by the steps
  int64_t steps = 1;   // share of the block
  int64_t step = 0;    // of the block's schedule, from 0
  bool above = false;  // confidence must exceed the threshold, not only reach it (LLaDA2.1's sampler)
  int64_t least = 1;   // commits at least, the best ones (LLaDA2.2's sampler)
};

// Applies the rule of the options, then the gate where there is one. For Dream's rules, `at.step` is a step that
// reveals a mask (dream_step). `confirmed` (ascending) are taken beside the rule's choice, if the gate lets them
// through.
std::vector<size_t> choose(const AcceptanceOptions& options, std::span<const Candidate> candidates,
                           const ScheduleStep& at, std::span<const size_t> confirmed = {});

}  // namespace llada::decode
