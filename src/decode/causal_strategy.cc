#include "decode/causal_strategy.h"

#include <algorithm>

#include "decode/canvas.h"
#include "decode/options.h"
#include "decode/row_sets.h"

namespace llada::decode {
CausalStrategy::CausalStrategy(const DecodeOptions& options, const Canvas& canvas, std::unique_ptr<Strategy> blocks,
                               bool takes_first)
    : blocks_(std::move(blocks)),
      takes_first_(takes_first),
      keeps_(options.kv != KvChoice::none),
      begin_(static_cast<int32_t>(generated_begin(canvas))),
      length_(options.block_length),
      count_((canvas.size() - begin_ + length_ - 1) / length_) {}

StepPlan CausalStrategy::plan(const Canvas& canvas) {
  const auto open = std::ranges::find(canvas.states, TokenState::masked) - canvas.states.begin();
  const auto block = static_cast<int32_t>(begin_ + (open - begin_) / length_ * length_);
  const int32_t from = keeps_ ? written_ : 0;
  first_ = takes_first_ && written_ < block;
  const bool writes = written_ < block;
  if (writes) blocks_->stored(canvas, block);
  written_ = block;
  if (first_) {
    StepPlan plan;
    plan.rows = range(from, block);
    plan.inputs = tokens_at(canvas, plan.rows);
    plan.logits = {block - 1};
    plan.keys = plan.causal_below = plan.block_begin = block;
    plan.block_end = static_cast<int32_t>(std::min(block + length_, canvas.size()));
    return plan;
  }
  StepPlan plan = blocks_->plan(canvas);
  plan.causal_below = block;
  if (writes && keeps_) {
    plan.rows = merged(range(from, block), plan.rows);
    plan.inputs = tokens_at(canvas, plan.rows);
  }
  return plan;
}

std::vector<Edit> CausalStrategy::accept(const Canvas& canvas, const StepResult& result) {
  if (!first_) return blocks_->accept(canvas, result);
  const Prediction& p = result.predictions.front();
  return {{p.position + 1, p.token, TokenState::stable, p.probability}};
}

int64_t CausalStrategy::step_bound() const { return blocks_->step_bound() + count_; }

// The row before the first block is computed in any case: it says the first token.
void CausalStrategy::stored(const Canvas& /*canvas*/, int64_t positions) {
  written_ = std::max<int32_t>(0, std::min(static_cast<int32_t>(positions), begin_ - (takes_first_ ? 1 : 0)));
}

}  // namespace llada::decode
