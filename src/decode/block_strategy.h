// Semi-autoregressive decoding: blocks are finished left to right, and a commit is final. Deliberately not
// done: looking ahead of the current block, revising what is committed.
#pragma once
#include <span>
#include <vector>

#include "decode/acceptance.h"
#include "decode/blocks.h"
#include "decode/strategy.h"

namespace llada::decode {

class BlockStrategy final : public Strategy {
 public:
  // The options are valid; one share of steps (share_steps) for each block.
  BlockStrategy(const DecodeOptions& options, const SpecialIds& ids, std::vector<Block> blocks,
                std::vector<int64_t> block_steps);

  StepPlan plan(const Canvas& canvas) override;
  std::vector<Edit> accept(const Canvas& canvas, std::span<const Prediction> predictions) override;
  bool done(const Canvas& canvas) const override;
  int64_t step_bound() const override;

 private:
  void move_to_open_block(const Canvas& canvas);
  int64_t finished_end(int64_t open) const;
  double score(const Prediction& prediction) const;
  std::vector<size_t> choose(std::span<const Candidate> candidates) const;

  const DecodeOptions options_;
  const SpecialIds ids_;
  const std::vector<Block> blocks_;
  const std::vector<int64_t> block_steps_;  // most forwards of each block
  size_t current_ = 0;                      // the block the next plan looks at first
  int64_t step_ = 0;                        // forwards of the current block so far
  int64_t forward_ = 0;                     // forwards of the run so far
};

}  // namespace llada::decode
