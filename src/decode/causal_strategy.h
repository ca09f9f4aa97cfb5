// Blocks behind causal text (Nemotron-Labs-Diffusion). The prompt and finished blocks are read causally, as an
// autoregressive model reads them; a block behind them sees itself and all of them. So a finished block passes the
// model once more, causally, which writes its keys and values for good, and whose last row says the first token of the
// next block. The rest of that block is decided by other rules, in forwards of its own rows.
//
// Where the answer has a form, that token is not taken. The form decides a block as a whole, and the first of its
// forwards also writes the block before it. Deliberately absent: revision of finished blocks, and guidance.
#pragma once
#include <memory>

#include "decode/strategy.h"

namespace llada::decode {

class CausalStrategy final : public Strategy {
 public:
  // blocks: decides the masks of a block, and is told that whatever stands before it is causal (SpecialIds with an
  // attention block of 1). takes_first: the first token of a block is the last row's.
  CausalStrategy(const DecodeOptions& options, const Canvas& canvas, std::unique_ptr<Strategy> blocks,
                 bool takes_first);

  StepPlan plan(const Canvas& canvas) override;
  std::vector<Edit> accept(const Canvas& canvas, const StepResult& result) override;
  bool done(const Canvas& canvas) const override { return blocks_->done(canvas); }
  int64_t step_bound() const override;
  StrategyCounters counters() const override { return blocks_->counters(); }
  void stored(const Canvas& canvas, int64_t positions) override;
  int64_t exact_prefix(const Canvas& /*canvas*/) const override { return written_; }

 private:
  const std::unique_ptr<Strategy> blocks_;
  const bool takes_first_, keeps_;  // keeps: K/V that is final is not computed again
  const int32_t begin_;             // of the first block
  const int64_t length_, count_;    // of a block; blocks
  int32_t written_ = 0;             // positions whose K/V is final
  bool first_ = false;              // the last plan was for the first token of a block
};

}  // namespace llada::decode
