// The denoising loop: plan, forward, accept, apply, tell. It owns no rule; it holds every side to its
// contract.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "decode/strategy.h"
#include "decode/types.h"

namespace llada::decode {

// One finished step. Everything referred to lives only during the call.
struct StepEvent {
  int64_t step;  // from 0
  std::span<const Edit> edits;
  std::span<const Prediction> predictions;  // result.predictions
  const Canvas& canvas;                     // with the edits applied
  int64_t committed;  // length of the final contiguous text after the prompt: it only grows
  int64_t block_begin, block_end;
  const StepPlan& plan;
  const StepResult& result;
};

struct RunStats {
  int64_t steps = 0;
  int64_t nfe = 0;  // forwards; the two streams of guidance are one, a sparse plan is one beside its step's
  int64_t sparse_forwards = 0;  // of them, sparse plans
  int64_t full_forwards = 0;    // those that computed every position they read
  int64_t rows = 0;             // rows computed, over both streams of guidance, trials included
  int64_t trial_rows = 0;       // of them, rows of trials
  int64_t logit_rows = 0;       // rows whose logits were computed, over both streams
  int64_t edits = 0;            // changed positions
  int64_t committed = 0;        // masks that became tokens, less tokens that became masks again
  StrategyCounters counters;    // drafts and revisions
  bool stopped_early = false;   // masks were left behind an end token: see canonical_tail()
  bool cancelled = false;

  double tokens_per_forward() const {
    return nfe ? static_cast<double>(committed) / static_cast<double>(nfe) : 0;
  }
};

// Runs until the strategy is done. on_step may be empty; false cancels after the step that was just applied.
// On an error the canvas is as the last finished step left it: the runner's own error, or `failed` where a
// side broke its contract.
Result<RunStats> denoise(Canvas& canvas, Strategy& strategy, StepRunner& runner,
                         const std::function<bool(const StepEvent&)>& on_step);

}  // namespace llada::decode
