#include "decode/block_strategy.h"

#include <algorithm>

#include "base/check.h"
#include "base/random.h"
#include "decode/answer.h"
#include "decode/canvas.h"
#include "decode/kv_policy.h"

namespace llada::decode {

BlockStrategy::BlockStrategy(const DecodeOptions& options, const SpecialIds& ids, std::vector<Block> blocks,
                             std::vector<int64_t> block_steps)
    : options_(options), ids_(ids), blocks_(std::move(blocks)), block_steps_(std::move(block_steps)) {}

StepPlan BlockStrategy::plan(const Canvas& canvas) {
  move_to_open_block(canvas);
  const Block& block = blocks_[current_];
  StepPlan plan;
  plan.rows = kv_rows(options_.kv, options_.refresh, {canvas.size(), block, step_});
  plan.keys = static_cast<int32_t>(canvas.size());
  plan.block_begin = block.begin;
  plan.block_end = block.end;
  for (const int32_t row : plan.rows) plan.inputs.push_back(canvas.tokens[static_cast<size_t>(row)]);
  for (int32_t p = block.begin; p < block.end; ++p) {
    if (canvas.states[static_cast<size_t>(p)] == TokenState::masked) plan.logits.push_back(p);
  }
  if (options_.cfg_scale > 0) {
    plan.cfg_scale = options_.cfg_scale;
    for (const int32_t row : plan.rows) {
      const auto i = static_cast<size_t>(row);
      plan.unconditional.push_back(canvas.states[i] == TokenState::fixed ? canvas.mask_id : canvas.tokens[i]);
    }
  }
  return plan;
}

std::vector<Edit> BlockStrategy::accept(const Canvas&, std::span<const Prediction> predictions) {
  std::vector<Candidate> candidates;
  for (const Prediction& p : predictions) {
    candidates.push_back({p.position, p.token, score(p), p.probability, p.entropy});
  }
  std::vector<Edit> edits;
  for (const size_t i : choose(candidates)) {
    const Candidate& c = candidates[i];
    edits.push_back({c.position, c.token, TokenState::stable, c.probability});
  }
  ++step_;
  ++forward_;
  return edits;
}

bool BlockStrategy::done(const Canvas& canvas) const {
  const auto open = std::ranges::find(canvas.states, TokenState::masked);
  if (open == canvas.states.end()) return true;
  if (canvas.infill || options_.early_stop == EarlyStop::none) return false;
  if (options_.early_stop == EarlyStop::answer) return answer_is_final(canvas, ids_);
  const int64_t begin = generated_begin(canvas);
  const int64_t end = finished_end(open - canvas.states.begin());
  return first_end(canvas, begin, end, ids_.end_ids) < end;
}

int64_t BlockStrategy::step_bound() const {
  int64_t bound = 0;
  for (const int64_t steps : block_steps_) bound += steps;
  return bound;
}

void BlockStrategy::move_to_open_block(const Canvas& canvas) {
  const auto is_open = [&](const Block& block) {
    return std::find(canvas.states.begin() + block.begin, canvas.states.begin() + block.end,
                     TokenState::masked) != canvas.states.begin() + block.end;
  };
  while (!is_open(blocks_[current_])) {
    ++current_;
    step_ = 0;
    LLADA_CHECK(current_ < blocks_.size());
  }
}

// Where the block of the first open position begins: all before it is finished.
int64_t BlockStrategy::finished_end(int64_t open) const {
  const auto block = std::ranges::find_if(blocks_, [&](const Block& b) { return open < b.end; });
  return block == blocks_.end() ? open : std::min<int64_t>(block->begin, open);
}

double BlockStrategy::score(const Prediction& p) const {
  if (options_.remasking == Remasking::low_confidence) return p.probability;
  return uniform(options_.seed, static_cast<uint64_t>(forward_), static_cast<uint64_t>(p.position),
                 kPositionDraw);
}

std::vector<size_t> BlockStrategy::choose(std::span<const Candidate> candidates) const {
  switch (options_.acceptance) {
    case Acceptance::schedule:
      return accept_best(candidates, transfer_count(blocks_[current_].masks, block_steps_[current_], step_));
    case Acceptance::threshold:
      return accept_above(candidates, options_.threshold);
    case Acceptance::factor:
      return accept_factor(candidates, options_.factor);
    case Acceptance::entropy:
      return accept_entropy(candidates, options_.entropy_bound);
  }
  return {};
}

}  // namespace llada::decode
