// One request being denoised: its canvas, its strategy and its cost so far. It plans the next forward and takes the
// forward's results. It does not know who computes them, when, and beside which other requests. It owns no rule; it
// holds the strategy and the forward to their contract (denoiser.cc).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decode/strategy.h"
#include "decode/types.h"

namespace llada::decode {

// One finished step. Everything referred to belongs to the Denoiser and lives until its next call.
struct StepEvent {
  int64_t step;                             // from 0
  std::span<const Edit> edits;              // of the first step also the tokens that a form fixed before it
  std::span<const Prediction> predictions;  // result.predictions
  const Canvas& canvas;                     // with the edits applied
  int64_t committed;                        // length of the final contiguous text after the prompt: it only grows
  int64_t block_begin, block_end;
  const StepPlan& plan;
  const StepResult& result;
  const SparsePlan* landed;  // whose results result.sparse are; null: none landed
};

struct RunStats {
  int64_t steps = 0;
  int64_t nfe = 0;              // forwards; the two streams of guidance are one, a sparse plan is one beside its step's
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

  bool operator==(const RunStats&) const = default;
};

// Forwards of a plan: that of its rows and trials, where it has some, and that of its sparse plan.
int64_t forwards_of(const StepPlan& plan);
// Rows that the forwards of a plan compute: over both streams of guidance, trials and the sparse plan included.
int64_t rows_of(const StepPlan& plan);

class Denoiser {
 public:
  // The strategy was made for the canvas (make_strategy).
  Denoiser(Canvas canvas, std::shared_ptr<Strategy> strategy);
  Denoiser(const Denoiser&) = delete;
  Denoiser& operator=(const Denoiser&) = delete;

  bool done() const { return done_; }

  // The plan of the next forward; the same until take(). Not while done(). Failed: the strategy broke its contract or
  // needs more steps than its bound.
  Result<std::reference_wrapper<const StepPlan>> plan();

  // The number of the planned forward, from 0: it keys the random numbers. A sparse plan has the number after it.
  int64_t forward_number() const { return stats_.nfe; }

  // Takes the results of the planned forward and applies their edits. Failed: the result or the edits break the
  // contract; the canvas is then as the step before left it, and the Denoiser is done.
  Result<StepEvent> take(StepResult result);

  // Before the first plan: Strategy::stored().
  void stored(int64_t positions) { strategy_->stored(canvas_, positions); }
  // From now on every position that is decided gets the token that `text` has there, whatever was predicted. text: one
  // token for each position of the canvas.
  void follow(std::vector<int32_t> text);
  // After take(): Strategy::exact_prefix().
  int64_t exact_prefix() const { return strategy_->exact_prefix(canvas_); }

  // No further step; the canvas keeps its masks.
  void cancel();
  // The same, but the tokens decided so far are a whole answer: the run does not count as cancelled.
  void end();

  const RunStats& stats() const { return stats_; }
  const Canvas& canvas() const { return canvas_; }
  const Canvas& sparse_canvas() const { return beside_canvas_; }  // as the pass that was begun last found it
  Canvas& canvas() { return canvas_; }  // for whoever takes or finishes the text once it is done

 private:
  Canvas canvas_;
  const std::shared_ptr<Strategy> strategy_;
  const int64_t begin_, bound_;  // of the generated region; most steps
  RunStats stats_;
  std::optional<StepPlan> plan_;      // of the step under way, or the last one
  std::optional<SparsePlan> beside_;  // of the pass under way
  Canvas beside_canvas_;
  SparsePlan landed_;
  StepResult result_;
  std::vector<Edit> edits_, begun_;  // begun: decided before the first step, and told with it
  std::vector<int32_t> text_;        // of follow()
  int64_t committed_ = 0;
  bool planned_ = false, done_ = false;
};

}  // namespace llada::decode
