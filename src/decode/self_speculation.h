// Self-speculation: one model drafts and verifies. A forward that sees the whole block predicts all its masks. A causal
// forward over that draft then says for each position which token would be best if only the tokens before it were
// known. The tokens on which both agree are final, and so is the causal one where they first differ. The text is that
// of decoding one token after the other with causal attention, greedily, whatever the drafts were. Sources:
// Nemotron-Labs-Diffusion's linear_spec_generate(); S2D2 (arXiv 2603.25702), which does so within the blocks of a
// block-causal model.
//
//   draft    [first open position, end of its block) are masks and see each other; of a model whose causal rows predict
//            the next position, the last decided token with them
//   verify   the drafted tokens, each row seeing the positions before it. Where a row predicts the next position its
//            own logits say the token there, and one more behind the draft. Elsewhere a trial for each position asks
//            what a mask there would become
//
// Keys and values are causal throughout. So a block-causal model (SDAR, LLaDA2) is read here as one with blocks of 1,
// for which it was not trained; Nemotron-Labs-Diffusion was. A draw at a temperature is one of the causal view.
#pragma once
#include "decode/strategy.h"

namespace llada::decode {

class SelfSpeculation final : public Strategy {
 public:
  SelfSpeculation(const DecodeOptions& options, const SpecialIds& ids, const Canvas& canvas);

  StepPlan plan(const Canvas& canvas) override;
  std::vector<Edit> accept(const Canvas& canvas, const StepResult& result) override;
  bool done(const Canvas& canvas) const override;
  int64_t step_bound() const override { return 2 * masks_ + 1; }
  StrategyCounters counters() const override { return counters_; }
  void stored(const Canvas& canvas, int64_t positions) override;
  int64_t exact_prefix(const Canvas& /*canvas*/) const override { return written_; }

 private:
  int32_t draft_end(int32_t open) const;
  StepPlan plan_draft(const Canvas& canvas);
  StepPlan plan_verify(const Canvas& canvas);

  const SpecialIds ids_;
  const bool next_;        // a causal row predicts the next position
  const bool keeps_;       // K/V that is final is not computed again
  const bool to_the_end_;  // whatever ends the answer
  const int32_t begin_, size_;
  const int64_t length_, masks_;
  int32_t open_ = 0, written_ = 0;  // the first position that is not decided; positions whose K/V is final
  bool verifying_ = false;          // the last plan
  std::vector<int32_t> draft_;      // tokens of the positions from open_ on
  StrategyCounters counters_;
};

}  // namespace llada::decode
