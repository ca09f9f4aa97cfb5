// Windows in which decided tokens are read first (WeDLM, arXiv 2512.22737). Attention is causal, but not in the order
// of positions. A decided row reads the decided positions up to its own. A mask reads all decided positions, those
// behind it too, and the masks before it. Rotary positions are those of the text. So the window, which begins at the
// first mask, may be decided in any order. The forward after a token was decided, with all before it, writes the
// token's keys and values for good. They are those of an autoregressive model.
//
//   positions   5 6 7 8 9        7 is decided, the others are masks
//   places      6 7 5 8 9        of their keys and values; a row reads all places up to its own
//
// Any acceptance rule without a schedule of blocks decides a window; the published one is Acceptance::wedlm. Positions
// behind the requested length are decided with the others, as the published engine refills its windows. So an answer of
// one token takes as many forwards as the first token of a long one. Where the model's context ends, windows are
// shorter. Deliberately absent: revision of decided tokens, and guidance.
#pragma once
#include <memory>

#include "decode/strategy.h"

namespace llada::decode {

// The place of each position from `from` on: those that are decided first, then the others, both in the order of the
// text.
std::vector<int32_t> decided_first_places(const std::vector<bool>& decided, int64_t from = 0);

class DecidedFirst final : public Strategy {
 public:
  // windows: decides the masks of a block that slides.
  DecidedFirst(const DecodeOptions& options, const Canvas& canvas, std::unique_ptr<Strategy> windows);

  StepPlan plan(const Canvas& canvas) override;
  std::vector<Edit> accept(const Canvas& canvas, const StepResult& result) override {
    return windows_->accept(canvas, result);
  }
  bool done(const Canvas& canvas) const override { return windows_->done(canvas); }
  int64_t step_bound() const override { return windows_->step_bound(); }
  StrategyCounters counters() const override { return windows_->counters(); }
  void stored(const Canvas& canvas, int64_t positions) override;
  int64_t exact_prefix(const Canvas& /*canvas*/) const override { return written_; }

 private:
  const std::unique_ptr<Strategy> windows_;
  const bool keeps_;     // K/V that is final is not computed again
  const int32_t begin_;  // of the answer
  int32_t written_ = 0;  // positions whose K/V is final
};

}  // namespace llada::decode
