// Block decoding whose pace is set by a script: every step commits the N most certain of the current block's masks,
// whatever their probability. With it a model with random weights does the forwards that a real one would at N tokens
// per step; the work of the rest of the engine is real.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "decode/blocks.h"
#include "decode/kv_policy.h"
#include "decode/strategy.h"

namespace llada::bench {

// When every row is computed: at the start of each block, or in the first forward only.
enum class Refresh { block, once };

// A block-causal model ignores Refresh and RowsPolicy and uses its exact block K/V (decode/kv_policy.h). Reports name
// it `once`, `block`.

// The rows that are computed: all of the current block, or only its masked ones. Positions that the last step committed
// are computed in either case, so that the store knows their tokens.
enum class RowsPolicy { block, masked };

std::string_view name(Refresh refresh);
std::string_view name(RowsPolicy rows);

struct Script {
  int64_t block_length = 32, tokens_per_step = 1;
  Refresh refresh = Refresh::block;
  RowsPolicy rows = RowsPolicy::block;
  int64_t attention_block = 0;  // of a block-causal model; 0: full attention
};

class ScriptedStrategy final : public decode::Strategy {
 public:
  // The canvas as laid by decode::lay_generation().
  ScriptedStrategy(const Script& script, const decode::Canvas& canvas);

  decode::StepPlan plan(const decode::Canvas& canvas) override;
  std::vector<decode::Edit> accept(const decode::Canvas& canvas, const decode::StepResult& result) override;
  bool done(const decode::Canvas& canvas) const override;
  int64_t step_bound() const override;

 private:
  const Script script_;
  const std::vector<decode::Block> blocks_;
  decode::KvPlanner exact_;  // block-causal models
  size_t current_ = 0;
  int64_t step_ = 0;                     // forwards of the current block so far
  int64_t forward_ = 0;                  // forwards of the run so far
  std::vector<int32_t> just_committed_;  // by the last step, ascending
};

}  // namespace llada::bench
