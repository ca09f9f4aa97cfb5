// A strategy turns a canvas into a plan for one forward, and the forward's results into edits. It holds counters and
// its memory of earlier steps, and nothing else: no model, thread or clock, so a script can stand in for the model. It
// is put together from a window (blocks.h), an acceptance rule (acceptance.h), a K/V policy (kv_policy.h), and where
// asked for speculation (speculation.h) and revision (revision.h).
#pragma once
#include <memory>
#include <vector>

#include "decode/options.h"
#include "decode/types.h"

namespace llada::forms {
class TokenForm;
}

namespace llada::decode {

struct StrategyCounters {
  int64_t drafts_proposed = 0;    // predictions of future blocks that were kept, renewals included
  int64_t drafts_accepted = 0;    // of them, those that became text
  int64_t revisions_made = 0;     // tokens looked at again
  int64_t revisions_changed = 0;  // of them, those that did not stay
  bool operator==(const StrategyCounters&) const = default;
};

class Strategy {
 public:
  virtual ~Strategy() = default;

  // The plan of the next forward. Only called while !done().
  virtual StepPlan plan(const Canvas& canvas) = 0;

  // The edits of that forward, ascending by position; the canvas is still as it was planned on. The caller
  // applies them before the next call.
  virtual std::vector<Edit> accept(const Canvas& canvas, const StepResult& result) = 0;

  // True once no mask is left and no token is to be checked again, or once the early stop holds.
  virtual bool done(const Canvas& canvas) const = 0;

  // No run takes more steps than this.
  virtual int64_t step_bound() const = 0;

  virtual StrategyCounters counters() const { return {}; }

  // Called before the first plan: the store holds the K/V of the first `positions` of the canvas, bit for bit as
  // forwards of this run would write it.
  virtual void stored(const Canvas& /*canvas*/, int64_t /*positions*/) {}

  // How many positions from 0 have final K/V in the store, as the forward of the last plan left it. Nothing changes
  // them any more, and any run over the same tokens would have the same. Whole blocks of a block-causal model; 0 where
  // nothing is final before the end.
  virtual int64_t exact_prefix(const Canvas& /*canvas*/) const { return 0; }
};

// Blocks left to right with the rules of the options. Models of other kinds have other strategies: blocks behind causal
// text (causal_strategy.h), windows with decided tokens first (decided_first.h), self-speculation (self_speculation.h),
// or canvases of random tokens (uniform_canvas.h). Invalid: options that validate() refuses, ids without a mask token
// where one is needed, more positions than 31 bits count, fewer steps than blocks with masks. form: the form of the
// answer, over the model's tokens. The strategy takes the tokens that the form fixes as decided; begin_form() has
// written them into the canvas.
Result<std::unique_ptr<Strategy>> make_strategy(const DecodeOptions& options, const SpecialIds& ids,
                                                const Canvas& canvas,
                                                std::shared_ptr<const forms::TokenForm> form = nullptr);

// Strategies that run the given forwards and decide nothing, for results that are read off the last one's logits.
// plan() returns the same forward until accept() takes its result.
std::unique_ptr<Strategy> planned_forwards(std::vector<StepPlan> plans);
std::unique_ptr<Strategy> one_forward(StepPlan plan);

}  // namespace llada::decode
