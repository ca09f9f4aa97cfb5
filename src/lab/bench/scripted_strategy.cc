#include "lab/bench/scripted_strategy.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "decode/acceptance.h"
#include "decode/canvas.h"

namespace llada::bench {
std::string_view name(Refresh refresh) { return refresh == Refresh::block ? "block" : "once"; }

std::string_view name(RowsPolicy rows) { return rows == RowsPolicy::block ? "block" : "masked or just committed"; }

ScriptedStrategy::ScriptedStrategy(const Script& script, const decode::Canvas& canvas)
    : script_(script),
      blocks_(decode::tile_blocks(canvas, script.attention_block > 0 ? 0 : decode::generated_begin(canvas),
                                  script.block_length)),
      exact_({.kv = decode::KvChoice::block}, false, canvas.size(), script.attention_block) {}

decode::StepPlan ScriptedStrategy::plan(const decode::Canvas& canvas) {
  while (!decode::has_masks(canvas, blocks_[current_])) {
    ++current_;
    step_ = 0;
    LLADA_CHECK(current_ < blocks_.size());
  }
  const decode::Block& block = blocks_[current_];
  decode::StepPlan plan;
  plan.logits = decode::positions_in(canvas, block, decode::TokenState::masked);
  plan.keys = static_cast<int32_t>(canvas.size());
  plan.block_begin = block.begin;
  plan.block_end = block.end;
  if (script_.attention_block > 0) {
    const int64_t blocks = (block.end + script_.attention_block - 1) / script_.attention_block;
    plan.keys = static_cast<int32_t>(std::min(canvas.size(), blocks * script_.attention_block));
    const std::span feed(canvas.tokens.data(), static_cast<size_t>(plan.keys));
    plan.rows = exact_.rows(canvas, feed, block, plan.logits, false);
    plan.inputs = decode::tokens_at(canvas, plan.rows);
    exact_.planned(plan, canvas.tokens);
    return plan;
  }
  const bool full = script_.refresh == Refresh::block ? step_ == 0 : forward_ == 0;
  std::vector<int32_t> rows = plan.logits;
  if (full || script_.rows == RowsPolicy::block) {
    rows.resize(static_cast<size_t>(full ? canvas.size() : block.end - block.begin));
    std::iota(rows.begin(), rows.end(), full ? 0 : block.begin);
  }
  std::ranges::set_union(rows, just_committed_, std::back_inserter(plan.rows));
  plan.inputs = decode::tokens_at(canvas, plan.rows);
  return plan;
}

std::vector<decode::Edit> ScriptedStrategy::accept(const decode::Canvas&, const decode::StepResult& result) {
  std::vector<decode::Candidate> candidates;
  for (const decode::Prediction& p : result.predictions)
    candidates.push_back({p.position, p.token, p.probability, p.probability, p.entropy});
  const auto count = std::min<int64_t>(script_.tokens_per_step, static_cast<int64_t>(candidates.size()));
  std::vector<decode::Edit> edits;
  just_committed_.clear();
  for (const size_t i : decode::accept_best(candidates, count)) {
    const decode::Candidate& c = candidates[i];
    edits.push_back({c.position, c.token, decode::TokenState::stable, c.probability});
    just_committed_.push_back(c.position);
  }
  ++step_;
  ++forward_;
  return edits;
}

bool ScriptedStrategy::done(const decode::Canvas& canvas) const { return decode::count_masked(canvas) == 0; }

int64_t ScriptedStrategy::step_bound() const {
  int64_t steps = 0;
  for (const decode::Block& block : blocks_)
    steps += (block.masks + script_.tokens_per_step - 1) / script_.tokens_per_step;
  return steps;
}

}  // namespace llada::bench
