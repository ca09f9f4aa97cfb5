#include "decode/block_strategy.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/random.h"
#include "decode/answer.h"
#include "decode/canvas.h"
#include "decode/row_sets.h"

namespace llada::decode {
namespace {

// The second stream of guidance sees what the first does, with the prompt masked.
std::vector<int32_t> unconditional(const Canvas& canvas, std::span<const int32_t> rows,
                                   std::span<const int32_t> inputs) {
  std::vector<int32_t> out;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool fixed = canvas.states[static_cast<size_t>(rows[i])] == TokenState::fixed;
    out.push_back(fixed ? canvas.mask_id : inputs[i]);
  }
  return out;
}

}  // namespace

BlockStrategy::BlockStrategy(const DecodeOptions& options, const SpecialIds& ids, const Canvas& canvas,
                             std::vector<Block> blocks, std::vector<int64_t> block_steps,
                             std::unique_ptr<FormKeeper> form)
    : options_(options),
      ids_(ids),
      blocks_(std::move(blocks)),
      block_steps_(std::move(block_steps)),
      kv_(options, options.slide, canvas.size(), ids.attention_block, ids.block_origin),
      reviser_(make_reviser(options, ids, canvas)),
      form_(std::move(form)) {
  if (!blocks_.empty()) block_ = blocks_.front();
  if (options.mbsd) speculation_.emplace(options, ids);
  if (predicts_length(options, ids.attention_block) && !canvas.infill)
    length_.emplace(options, ids, generated_begin(canvas), canvas.size());
}

// ---- Plan

std::vector<int32_t> BlockStrategy::rows_of(std::span<const int32_t> positions) const {
  std::vector<int32_t> rows;
  for (const int32_t p : positions)
    if (rows.empty() || rows.back() != ids_.row_of(p)) rows.push_back(ids_.row_of(p));  // 0 and 1 may share row 0
  return rows;
}

int32_t BlockStrategy::keys_read(const Canvas& canvas) const {
  const int64_t end = block_.end, attention_block = ids_.attention_block;
  int64_t keys = options_.tail < 0 ? canvas.size() : std::min(canvas.size(), end + options_.tail);
  if (attention_block > 0)
    keys = std::min(canvas.size(), ids_.block_end(end - 1));
  else if (length_)
    keys = std::max(end, length_->horizon());
  else if (options_.tail >= 0 && !kv_.full_is_next(canvas.tokens, block_))
    keys = std::clamp<int64_t>(kv_.full_keys(), end, keys);
  return static_cast<int32_t>(keys);
}

int32_t BlockStrategy::keys_ahead(const Canvas& canvas, int32_t keys) const {
  const auto rows = kv_.block_causal_rows(std::span(canvas.tokens).first(static_cast<size_t>(keys)), block_.begin);
  return speculation_->reach(canvas, block_, keys, std::ssize(rows));
}

StepPlan BlockStrategy::plan(const Canvas& canvas) {
  requested_ = {};
  StepPlan plan;
  if (waits(canvas)) return last_wait(canvas);
  plan_block(canvas, plan);
  plan.block_begin = block_.begin;
  plan.block_end = block_.end;
  plan.block_origin = static_cast<int32_t>(ids_.block_origin);
  plan.inputs = tokens_at(canvas, plan.rows);
  plan.sparse.inputs = tokens_at(canvas, plan.sparse.rows);
  for (const int32_t position : requested_.checks.trials)
    (requested_.separate ? plan.sparse.trials : plan.trials)
        .push_back(trial_of(canvas, position, ids_.row_of(position)));
  if (options_.cfg_scale > 0) {
    plan.cfg_scale = options_.cfg_scale;
    plan.unconditional = unconditional(canvas, plan.rows, plan.inputs);
    plan.sparse.unconditional = unconditional(canvas, plan.sparse.rows, plan.sparse.inputs);
    for (auto* trials : {&plan.trials, &plan.sparse.trials})
      for (Trial& trial : *trials) trial.unconditional = unconditional(canvas, trial.rows, trial.inputs);
  }
  kv_.planned(plan, canvas.tokens);
  if (!plan.sparse.empty()) begin_pass(canvas, plan);
  plan.landing = landing(canvas, plan);
  return plan;
}

// All is decided but for the checks that are under way.
bool BlockStrategy::waits(const Canvas& canvas) const {
  return under_way_ && !under_way_->checked.empty() && reviser_->waits(canvas);
}

// Computes nothing: only the last pass lands.
StepPlan BlockStrategy::last_wait(const Canvas& canvas) const {
  StepPlan plan;
  plan.keys = kv_.covered(canvas.tokens);
  plan.block_begin = block_.begin, plan.block_end = block_.end;
  plan.landing = {.when = Landing::When::waited};
  return plan;
}

void BlockStrategy::begin_pass(const Canvas& canvas, const StepPlan& plan) {
  const std::vector<int32_t>& checked = requested_.checks.trials;
  under_way_ = {.rows = plan.sparse.rows,
                .inputs = plan.sparse.inputs,
                .checked = checked,
                .tokens = tokens_at(canvas, checked),
                .forward = forward_};
}

// A row that a step computes anew, or whose token changes, while the pass is under way is not stored.
Landing BlockStrategy::landing(const Canvas& canvas, const StepPlan& plan) {
  if (!under_way_) return {};
  UnderWay& pass = *under_way_;
  std::vector<int32_t> rows, inputs;
  for (size_t i = 0; i < pass.rows.size(); ++i) {
    const int32_t row = pass.rows[i];
    if (canvas.tokens[static_cast<size_t>(row)] != pass.inputs[i] || std::ranges::binary_search(plan.rows, row))
      continue;
    rows.push_back(row), inputs.push_back(pass.inputs[i]);
  }
  pass.rows = std::move(rows), pass.inputs = std::move(inputs);
  using enum Landing::When;
  if (options_.revise_lateness == kReady) return {.when = if_there, .stored = pass.rows};
  if (forward_ - under_way_->forward < options_.revise_lateness) return {};
  return {.when = waited, .stored = pass.rows};
}

void BlockStrategy::plan_block(const Canvas& canvas, StepPlan& plan) {
  move_to_open_block(canvas);
  const Block& block = block_;
  requested_.masks = positions_in(canvas, block, TokenState::masked);
  if (reviser_ && !under_way_) requested_.checks = reviser_->checks(canvas, block);
  if (length_) length_->enter(block);
  plan.keys = keys_read(canvas);
  if (speculation_ && ids_.attention_block > 0) plan.keys = keys_ahead(canvas, plan.keys);
  const auto feed = std::span(canvas.tokens).first(static_cast<size_t>(plan.keys));
  requested_.separate = options_.revision == Revision::dual_path && options_.revise_lateness != kFused;
  // A pass beside the step reads what was stored before it.
  const int32_t before = requested_.separate ? kv_.covered(feed) : plan.keys;
  std::erase_if(requested_.checks.trials, [&](int32_t position) { return position >= before; });
  plan.logits = rows_of(merged(requested_.masks, requested_.checks.in_place));
  if (reviser_) plan.ranked = reviser_->ranked(canvas, block);
  plan.rows = kv_.rows(canvas, feed, block, plan.logits, requested_.separate);
  if (length_) {
    requested_.ends = length_->last_positions(block);
    const auto ends = rows_of(requested_.ends);
    if (std::ranges::includes(plan.rows, ends))
      plan.logits = merged(plan.logits, ends);
    else
      requested_.ends.clear();
  }
  if (speculation_) {
    const auto masks = static_cast<int64_t>(requested_.masks.size());
    requested_.lookahead = speculation_->lookahead(canvas, block, plan.keys, masks, plan.rows);
    const auto ahead = rows_of(requested_.lookahead);
    plan.logits = merged(plan.logits, ahead);
    plan.rows = merged(plan.rows, ahead);
  }
  // Stale K/V of a block-causal model is computed by the step's own rows, which keeps it exact.
  if (requested_.separate && !under_way_ && ids_.attention_block == 0) {
    plan.sparse.rows = kv_.stale(feed, before);
  }
  plan.sparse.keys = before;
}

// ---- Accept

Candidate BlockStrategy::candidate(const Prediction& p, int32_t position) const {
  const double score =
      options_.acceptance == Acceptance::random
          ? uniform(options_.seed, static_cast<uint64_t>(forward_), static_cast<uint64_t>(position), kPositionDraw)
          : p.probability;
  return {position, p.token, score, p.probability, p.entropy, p.margin};
}

// Fast-dLLM v2's loop takes the first token of a block off the row before it, alone and whatever its probability.
bool BlockStrategy::is_taken_alone(int64_t position) const {
  return options_.acceptance == Acceptance::llada2 && ids_.shift_logits && ids_.attention_block > 0 && position > 0 &&
         position % ids_.attention_block == 0;
}

std::vector<Edit> BlockStrategy::decide(std::span<const Candidate> candidates) {
  if (candidates.empty()) return {};
  if (is_dream(options_.acceptance))
    step_ = dream_step(static_cast<int64_t>(candidates.size()), block_steps_[current_], step_);
  const bool first = is_taken_alone(candidates.front().position);
  const auto confirmed = speculation_ ? speculation_->confirm(candidates) : std::vector<size_t>();
  const auto taken = choose(options_, first ? candidates.first(1) : candidates,
                            {.masks = blocks_[current_].masks,
                             .length = options_.block_length,
                             .steps = block_steps_[current_],
                             .step = step_,
                             .above = edits_in_place(options_.revision),
                             .least = reviser_ ? reviser_->least_commits() : 1},
                            confirmed);
  if (speculation_)
    speculation_->accept(
        std::ranges::count_if(confirmed, [&](size_t i) { return std::ranges::binary_search(taken, i); }));
  std::vector<Edit> edits;
  for (const size_t i : taken) {
    const Candidate& c = candidates[i];
    const TokenState state = reviser_ ? reviser_->first_state(c.probability) : TokenState::stable;
    edits.push_back({c.position, c.token, state, c.probability});
  }
  return edits;
}

// Drafts of a block-causal model, behind the edits of the block that was read with them. As text they are no less sure
// than a threshold asks of the block's own. All masks count for the gate.
void BlockStrategy::decide_ahead(std::span<const Candidate> candidates, std::span<const Candidate> ahead,
                                 std::vector<Edit>& edits) {
  std::vector<Candidate> all(candidates.begin(), candidates.end());
  all.insert(all.end(), ahead.begin(), ahead.end());
  const double least = (kThresholdRules & rule_bit(options_.acceptance)) != 0 ? options_.threshold : 0;
  std::vector<size_t> sure;
  for (size_t i = 0; i < all.size(); ++i)
    if (i < candidates.size() ? std::ranges::binary_search(edits, all[i].position, {}, &Edit::position)
                              : all[i].probability >= least && speculation_->keeps(all[i]))
      sure.push_back(i);
  const auto kept = options_.entropy_gate > 0 ? gate_entropy(all, sure, options_.entropy_gate) : sure;
  for (const size_t i : kept) {
    if (i < candidates.size() || !std::ranges::binary_search(sure, i)) continue;
    const Candidate& c = all[i];
    edits.push_back({c.position, c.token, reviser_ ? TokenState::visible : TokenState::stable, c.probability});
    speculation_->accept(1);
  }
}

// Predictions by position, which may share a row.
std::vector<Prediction> BlockStrategy::predictions_of(const Canvas& canvas, std::span<const int32_t> positions,
                                                      const StepResult& result) {
  if (form_) return form_->predict(canvas, positions, result, forward_);
  std::vector<Prediction> out;
  for (const int32_t p : positions) {
    out.push_back(*std::ranges::lower_bound(result.predictions, ids_.row_of(p), {}, &Prediction::position));
    out.back().position = p;
  }
  return out;
}

std::vector<Edit> BlockStrategy::accept(const Canvas& canvas, const StepResult& result) {
  const std::vector<int32_t> asked = merged(requested_.masks, requested_.lookahead);
  const std::vector<Prediction> predicted = predictions_of(canvas, asked, result);
  if (reviser_) reviser_->answered(canvas, block_, result);
  std::vector<Candidate> candidates, ahead;
  for (const Prediction& p : predicted)
    (std::ranges::binary_search(requested_.masks, p.position) ? candidates : ahead).push_back(candidate(p, p.position));
  std::vector<Edit> edits = decide(candidates);
  if (ids_.attention_block > 0 && !ahead.empty()) decide_ahead(candidates, ahead, edits);
  if (length_) {
    std::vector<Prediction> ends;
    for (const int32_t p : requested_.ends)
      ends.push_back(*std::ranges::lower_bound(result.predictions, ids_.row_of(p), {}, &Prediction::position));
    length_->answered(block_, ends);
  }
  if (ids_.attention_block == 0)
    for (const Candidate& c : ahead) speculation_->propose(c);
  if (reviser_) {
    const std::vector<Prediction> seen = checked(canvas, result);
    reviser_->merge(canvas, block_, seen, under_way_ && !under_way_->checked.empty(), edits);
  }
  if (form_) {
    form_->keep(canvas, edits);
    for (const Edit& edit : form_->fixed(with_edits(canvas, edits), block_.end)) put(edits, edit);
    form_->mark(with_edits(canvas, edits), edits);
  }
  ++step_;
  ++forward_;
  return edits;
}

// The predictions for the reviser's checks, by the position that was checked. First come those of the pass that landed
// whose token has not changed since, then the step's trials and its checks in place.
std::vector<Prediction> BlockStrategy::checked(const Canvas& canvas, const StepResult& result) {
  std::vector<Prediction> seen;
  const auto add = [&](const Prediction& prediction, int32_t position, const std::vector<RowScores>& scores,
                       size_t at) {
    seen.push_back(form_ ? form_->predict_again(canvas, position, prediction, scores[at]) : prediction);
    seen.back().position = position;
  };
  if (result.landed) {
    for (size_t i = 0; i < result.sparse.size(); ++i) {
      const int32_t position = under_way_->checked[i];
      if (canvas.tokens[static_cast<size_t>(position)] == under_way_->tokens[i])
        add(result.sparse[i], position, result.sparse_scores, i);
    }
    kv_.landed(under_way_->rows, under_way_->inputs);
    under_way_.reset();
  }
  for (size_t i = 0; i < result.trials.size(); ++i)
    add(result.trials[i], requested_.checks.trials[i], result.trial_scores, i);
  for (const int32_t p : requested_.checks.in_place) {
    const auto row = std::ranges::lower_bound(result.predictions, ids_.row_of(p), {}, &Prediction::position);
    add(*row, p, result.scores, static_cast<size_t>(row - result.predictions.begin()));
  }
  return seen;
}

// ---- Progress

bool BlockStrategy::done(const Canvas& canvas) const {
  if (waits(canvas)) return false;
  const auto open = std::ranges::find(canvas.states, TokenState::masked);
  if (open == canvas.states.end()) return !reviser_ || !entered_ || !reviser_->keeps_open(canvas, blocks_[current_]);
  if (canvas.infill || options_.early_stop == EarlyStop::none) return false;
  if (options_.early_stop == EarlyStop::answer || length_is_final(canvas)) return answer_is_final(canvas, ids_);
  const int64_t begin = generated_begin(canvas);
  const int64_t end = finished_end(open - canvas.states.begin());
  return first_end(canvas, begin, end, ids_.end_ids) < end && answer_is_final(canvas, ids_);
}

int64_t BlockStrategy::step_bound() const {
  int64_t bound = 0, masks = 0;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const int64_t alone = is_taken_alone(blocks_[i].begin) ? 1 : 0;  // where the schedule has more
    bound += std::min(block_steps_[i] + alone, blocks_[i].masks);    // every forward of a block commits something
    masks += blocks_[i].masks;
  }
  return reviser_ ? reviser_->step_bound(masks, static_cast<int64_t>(blocks_.size())) : bound;
}

StrategyCounters BlockStrategy::counters() const {
  StrategyCounters c;
  if (speculation_) c.drafts_proposed = speculation_->proposed(), c.drafts_accepted = speculation_->accepted();
  if (reviser_) c.revisions_made = reviser_->made(), c.revisions_changed = reviser_->changed();
  return c;
}

void BlockStrategy::stored(const Canvas& canvas, int64_t positions) {
  kv_.stored(std::span(canvas.tokens).first(static_cast<size_t>(positions)));
}

void BlockStrategy::move_to_open_block(const Canvas& canvas) {
  while (!has_masks(canvas, blocks_[current_]) &&
         !(entered_ && reviser_ && reviser_->keeps_open(canvas, blocks_[current_]))) {
    ++current_;
    step_ = 0;
    entered_ = false;
    LLADA_CHECK(current_ < blocks_.size());
  }
  block_ = blocks_[current_];
  if (options_.slide) {
    const auto open = std::find(canvas.states.begin() + block_.begin, canvas.states.end(), TokenState::masked);
    block_.begin = static_cast<int32_t>(open - canvas.states.begin());
    block_.end = static_cast<int32_t>(std::min<int64_t>(block_.end, block_.begin + options_.block_length));
  }
  if (!entered_ && reviser_) reviser_->enter(block_);
  entered_ = true;
}

// Where the block of the first open position begins: all before it is finished.
int64_t BlockStrategy::finished_end(int64_t open) const {
  if (options_.slide) return open;
  const auto block = std::ranges::find_if(blocks_, [&](const Block& b) { return open < b.end; });
  return block == blocks_.end() ? open : std::min<int64_t>(block->begin, open);
}

}  // namespace llada::decode
