// A strategy turns a canvas into a plan for one forward, and the forward's predictions into edits. It holds
// counters and what it remembers between steps, and nothing else: no model, thread or clock, so a script can
// stand in for the model. It is put together from a window (blocks.h), an acceptance rule (acceptance.h) and
// a K/V policy (kv_policy.h).
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "decode/options.h"
#include "decode/types.h"

namespace llada::decode {

class Strategy {
 public:
  virtual ~Strategy() = default;

  // What the next forward computes. Only called while !done().
  virtual StepPlan plan(const Canvas& canvas) = 0;

  // The edits of that forward, ascending by position; the canvas is still as it was planned on. The caller
  // applies them before the next call. Predictions are in the plan's logits order.
  virtual std::vector<Edit> accept(const Canvas& canvas, std::span<const Prediction> predictions) = 0;

  // Nothing left to do: no mask is left, or the early stop holds.
  virtual bool done(const Canvas& canvas) const = 0;

  // No run takes more forwards than this.
  virtual int64_t step_bound() const = 0;
};

// Blocks left to right with the acceptance rule, K/V policy and early stop of the options. Invalid: options
// that validate() refuses, ids without a mask token, more positions than 31 bits count, fewer steps than
// blocks with masks.
Result<std::unique_ptr<Strategy>> make_strategy(const DecodeOptions& options, const SpecialIds& ids,
                                                const Canvas& canvas);

}  // namespace llada::decode
