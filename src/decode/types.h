// The words of decoding. canvas: the token array being denoised. block: a span of it that commits together.
// step: one forward pass. plan: what a strategy asks of one step. row: one canvas position computed in a
// step. edit: one changed position. Everything here is plain data; strategies are pure functions of it and
// are tested without a model.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace llada::decode {

enum class TokenState : uint8_t {
  fixed,    // prompt or template text: never edited
  masked,   // not decided
  visible,  // committed, may still be revised
  stable,   // final
};

// positions 0..size-1. The generated region is everything that is not `fixed`; for plain generation it is one
// span at the end, for infilling it may be several gaps.
struct Canvas {
  std::vector<int32_t> tokens;
  std::vector<TokenState> states;
  int32_t mask_id = -1;
  bool infill = false;  // gaps in a fixed text: an end token would not end it

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
};

// What a device says of one requested row (position). Softmax is over clean logits (temperature 1), in
// double.
struct Prediction {
  int32_t position = 0;
  int32_t token = -1;      // chosen token (sampled at temperature > 0); never the mask token
  float logit = 0;         // its clean logit
  double probability = 0;  // its softmax probability
  double entropy = 0;      // of the softmax, nats
  double margin = 0;       // probability of the best minus that of the second best (clean)
  int32_t runner_up = -1;  // second-best token
};

struct Edit {
  int32_t position = 0;
  int32_t token = -1;
  TokenState state = TokenState::stable;
  double confidence = 0;
};

// How a K/V read is made in a step: which rows are recomputed is `rows`; every other position that is read
// must be in the store from an earlier step.
struct StepPlan {
  std::vector<int32_t> rows;    // positions to compute, ascending
  std::vector<int32_t> inputs;  // token fed at each row (usually the canvas token; a revision feeds the mask)
  std::vector<int32_t> logits;  // positions (a subset of rows) whose predictions are wanted, ascending
  int32_t keys = 0;             // attention reads positions [0, keys)
  // > 0: guidance by a second, unconditional stream with the prompt masked; logits = u + (s + 1)(c - u).
  double cfg_scale = 0;
  std::vector<int32_t> unconditional = {};  // token fed at each row of that stream; empty without guidance
  int32_t block_begin = 0, block_end = 0;   // the current block [begin, end)
};

// Rules that the head applies to every requested row of the run.
struct HeadRule {
  double temperature = 0;               // Gumbel-max at > 0: argmax(logit - T*ln(-ln U))
  uint64_t seed = 0;                    // U depends on (seed, forward number, position, token) only
  std::vector<int32_t> never_sampled;   // mask id always; the end token with logits_eos_inf
  std::vector<int32_t> out_of_softmax;  // logit -inf before the softmax: confidence becomes 0 when chosen
};

// The other side of a step: a model on a device, or a script in a test.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  // forward_number counts the forwards of this run from 0 (it keys the random numbers). Predictions come in
  // plan.logits' order.
  virtual Result<std::vector<Prediction>> run(const StepPlan& plan, int64_t forward_number) = 0;
};

}  // namespace llada::decode
