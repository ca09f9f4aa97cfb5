#include "decode/self_speculation.h"

#include <algorithm>

#include "decode/answer.h"
#include "decode/canvas.h"
#include "decode/options.h"
#include "decode/row_sets.h"

namespace llada::decode {
SelfSpeculation::SelfSpeculation(const DecodeOptions& options, const SpecialIds& ids, const Canvas& canvas)
    : ids_(ids),
      next_(ids.causal_text || ids.shift_logits),
      keeps_(options.kv != KvChoice::none),
      to_the_end_(options.early_stop == EarlyStop::none),
      begin_(static_cast<int32_t>(generated_begin(canvas))),
      size_(static_cast<int32_t>(canvas.size())),
      length_(options.block_length),
      masks_(count_masked(canvas)) {}

void SelfSpeculation::stored(const Canvas& /*canvas*/, int64_t positions) {
  written_ = std::max<int32_t>(0, std::min(static_cast<int32_t>(positions), begin_ - (next_ ? 1 : 0)));
}

// Behind causal text a block begins with the last decided token.
int32_t SelfSpeculation::draft_end(int32_t open) const {
  const int64_t own = ids_.causal_text ? open - 1 + length_ : open + length_ - (open - ids_.block_origin) % length_;
  return static_cast<int32_t>(std::min<int64_t>(own, size_));
}

StepPlan SelfSpeculation::plan(const Canvas& canvas) {
  open_ = static_cast<int32_t>(std::ranges::find(canvas.states, TokenState::masked) - canvas.states.begin());
  // The first token behind a prompt needs no draft where the prompt's last row says it.
  const bool drafts = draft_.empty() && !(next_ && open_ == begin_) && open_ < draft_end(open_);
  verifying_ = !drafts;
  StepPlan plan = drafts ? plan_draft(canvas) : plan_verify(canvas);
  plan.block_origin = static_cast<int32_t>(ids_.causal_text ? 0 : ids_.block_origin);
  plan.block_begin = open_;
  plan.block_end = std::max(open_, draft_end(open_));
  return plan;
}

StepPlan SelfSpeculation::plan_draft(const Canvas& canvas) {
  const int32_t end = draft_end(open_), first = next_ ? open_ - 1 : open_;
  StepPlan plan;
  plan.rows = range(std::min(keeps_ ? written_ : 0, first), end);
  plan.inputs = tokens_at(canvas, plan.rows);
  plan.keys = end;
  plan.causal_below = first;
  if (!next_) written_ = open_;  // by this forward, in which they are causal
  for (int32_t p = open_; p < end; ++p) plan.logits.push_back(ids_.row_of(p));
  return plan;
}

StepPlan SelfSpeculation::plan_verify(const Canvas& canvas) {
  const int32_t end = open_ + static_cast<int32_t>(draft_.size());
  StepPlan plan;
  plan.rows = range(keeps_ ? std::min(written_, open_) : 0, end);
  plan.inputs = tokens_at(canvas, plan.rows);
  std::ranges::copy(draft_, plan.inputs.end() - std::ssize(draft_));
  plan.keys = plan.causal_below = end;
  for (int32_t p = open_; next_ && p <= end && p < size_; ++p) plan.logits.push_back(p - 1);
  for (int32_t p = open_; !next_ && p < end; ++p) plan.trials.push_back(trial_of(canvas, p, p));
  return plan;
}

std::vector<Edit> SelfSpeculation::accept(const Canvas& /*canvas*/, const StepResult& result) {
  if (!verifying_) {
    for (const Prediction& p : result.predictions) draft_.push_back(p.token);
    return {};
  }
  const std::vector<Prediction>& seen = next_ ? result.predictions : result.trials;
  std::vector<Edit> edits;
  size_t same = 0;
  for (size_t i = 0; i < seen.size() && same == i; ++i) {
    const Prediction& p = seen[i];
    edits.push_back({open_ + static_cast<int32_t>(i), p.token, TokenState::stable, p.probability});
    same += i < draft_.size() && p.token == draft_[i];
  }
  counters_.drafts_proposed += std::ssize(draft_);
  counters_.drafts_accepted += static_cast<int64_t>(same);
  written_ = open_ + static_cast<int32_t>(same);
  draft_.clear();
  return edits;
}

bool SelfSpeculation::done(const Canvas& canvas) const {
  const auto open = std::ranges::find(canvas.states, TokenState::masked) - canvas.states.begin();
  if (open >= (to_the_end_ ? canvas.size() : canvas.answer_end())) return true;
  return !to_the_end_ && first_end(canvas, begin_, open, ids_.end_ids) < open;
}

}  // namespace llada::decode
