// Semi-autoregressive decoding: blocks are finished left to right. One class composes the parts; each part is
// a rule of its own and knows nothing of the others:
//
//   window      the block with the first mask; looks ahead when the speculation says so. With `slide` it begins at
//               that mask (the paper's window, arXiv 2606.13740, and DCD's, arXiv 2601.02076, which also lets it grow)
//   acceptance  which predictions of the block's masks are committed
//   revision    which committed tokens are checked again, and which of them change
//   K/V policy  which rows the forward computes
//
// Predictions are asked and answered by row (SpecialIds::row_of).
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decode/acceptance.h"
#include "decode/blocks.h"
#include "decode/form_keeper.h"
#include "decode/kv_policy.h"
#include "decode/length.h"
#include "decode/revision.h"
#include "decode/speculation.h"
#include "decode/strategy.h"

namespace llada::decode {

class BlockStrategy final : public Strategy {
 public:
  // The options are valid; one share of steps (share_steps, even_steps) for each block.
  BlockStrategy(const DecodeOptions& options, const SpecialIds& ids, const Canvas& canvas, std::vector<Block> blocks,
                std::vector<int64_t> block_steps, std::unique_ptr<FormKeeper> form = nullptr);

  StepPlan plan(const Canvas& canvas) override;
  std::vector<Edit> accept(const Canvas& canvas, const StepResult& result) override;
  bool done(const Canvas& canvas) const override;
  int64_t step_bound() const override;
  StrategyCounters counters() const override;
  void stored(const Canvas& canvas, int64_t positions) override;
  int64_t exact_prefix(const Canvas& canvas) const override { return kv_.exact_prefix(canvas); }

 private:
  // The positions that the last plan asked about, by which its results are read.
  struct Requested {
    std::vector<int32_t> masks;      // positions of the block to decide
    std::vector<int32_t> lookahead;  // positions to draft
    std::vector<int32_t> ends;       // positions that say whether the answer ends before them
    Checks checks;
    bool separate = false;  // trials are in the sparse plan
  };
  // The sparse pass under way.
  struct UnderWay {
    std::vector<int32_t> rows, inputs;     // whose K/V may still be stored, and the tokens that they were fed
    std::vector<int32_t> checked, tokens;  // positions of its trials, and the tokens that these check
    int64_t forward;                       // number of the step that began it
  };

  bool waits(const Canvas& canvas) const;
  StepPlan last_wait(const Canvas& canvas) const;
  void begin_pass(const Canvas& canvas, const StepPlan& plan);
  Landing landing(const Canvas& canvas, const StepPlan& plan);

  int32_t keys_read(const Canvas& canvas) const;                 // attention reads positions [0, this)
  int32_t keys_ahead(const Canvas& canvas, int32_t keys) const;  // where it reads `keys` without speculation
  std::vector<int32_t> rows_of(std::span<const int32_t> positions) const;
  void move_to_open_block(const Canvas& canvas);
  int64_t finished_end(int64_t open) const;
  void plan_block(const Canvas& canvas, StepPlan& plan);
  std::vector<Prediction> predictions_of(const Canvas& canvas, std::span<const int32_t> positions,
                                         const StepResult& result);
  std::vector<Prediction> checked(const Canvas& canvas, const StepResult& result);
  Candidate candidate(const Prediction& prediction, int32_t position) const;
  bool is_taken_alone(int64_t position) const;
  std::vector<Edit> decide(std::span<const Candidate> candidates);
  void decide_ahead(std::span<const Candidate> candidates, std::span<const Candidate> ahead, std::vector<Edit>& edits);

  const DecodeOptions options_;
  const SpecialIds ids_;
  const std::vector<Block> blocks_;
  const std::vector<int64_t> block_steps_;  // most forwards of each block by its schedule
  KvPlanner kv_;
  std::optional<Speculation> speculation_;
  std::optional<Length> length_;
  std::unique_ptr<Reviser> reviser_;
  const std::unique_ptr<FormKeeper> form_;  // null: the answer is free
  Requested requested_;
  std::optional<UnderWay> under_way_;
  size_t current_ = 0;    // the block that the next plan looks at first
  Block block_;           // the part of it that the last plan was for: all of it, or the window of a sliding block
  bool entered_ = false;  // it has had a step
  int64_t step_ = 0;      // of the current block's schedule: its forwards so far, and Dream's empty steps
  int64_t forward_ = 0;   // forwards of the run so far
};

}  // namespace llada::decode
