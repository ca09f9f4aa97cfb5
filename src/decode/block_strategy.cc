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

std::vector<int32_t> masks_of(const Canvas& canvas, const Block& block) {
  std::vector<int32_t> positions;
  for (int32_t p = block.begin; p < block.end; ++p)
    if (canvas.states[static_cast<size_t>(p)] == TokenState::masked) positions.push_back(p);
  return positions;
}

std::vector<int32_t> fed(std::span<const int32_t> rows, std::span<const int32_t> feed) {
  std::vector<int32_t> inputs;
  inputs.reserve(rows.size());
  for (const int32_t row : rows) inputs.push_back(feed[static_cast<size_t>(row)]);
  return inputs;
}

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
                             std::vector<Block> blocks, std::vector<int64_t> block_steps)
    : options_(options),
      ids_(ids),
      blocks_(std::move(blocks)),
      block_steps_(std::move(block_steps)),
      kv_(options, canvas.size(), ids.attention_block, ids.mask),
      reviser_(make_reviser(options, ids, canvas)),
      settling_(static_cast<size_t>(canvas.size())) {
  if (!blocks_.empty()) block_ = blocks_.front();
  if (options.mbsd) speculation_.emplace(options, ids);
  if (predicts_length(options, ids.attention_block) && !canvas.infill)
    length_.emplace(options, ids, generated_begin(canvas), canvas.size());
  if (options.credit) credit_.emplace(canvas.mask_id);
}

// ---- Plan

std::vector<int32_t> BlockStrategy::rows_of(std::span<const int32_t> positions) const {
  std::vector<int32_t> rows;
  for (const int32_t p : positions)
    if (rows.empty() || rows.back() != row_of(p)) rows.push_back(row_of(p));  // 0 and 1 may share row 0
  return rows;
}

int32_t BlockStrategy::set_keys(const Canvas& canvas, StepPlan& plan) const {
  const int64_t end = block_.end, attention_block = ids_.attention_block;
  int64_t keys = options_.tail < 0 ? canvas.size() : std::min(canvas.size(), end + options_.tail);
  if (attention_block > 0)
    keys = std::min(canvas.size(), (end + attention_block - 1) / attention_block * attention_block);
  else if (length_)
    keys = std::max(end, length_->horizon());
  // The first position that is cut off stands for the last one, which shows how long the canvas is (Streaming-dLLM).
  const bool reads_last = options_.tail_last && attention_block == 0;
  if (reads_last && keys + 1 == canvas.size()) ++keys;  // it is the last one itself
  const bool last = reads_last && keys < canvas.size();
  plan.last = last ? static_cast<int32_t>(canvas.size() - 1) : -1;
  plan.keys = static_cast<int32_t>(keys + last);
  return static_cast<int32_t>(keys);
}

StepPlan BlockStrategy::plan(const Canvas& canvas) {
  asked_ = {};
  StepPlan plan;
  std::vector<int32_t> feed = canvas.tokens;
  if (reviser_ && reviser_->sweep_due(canvas)) {
    asked_.sweep = true;
    asked_.look = reviser_->look(canvas, block_);
    set_keys(canvas, plan);
    feed.resize(static_cast<size_t>(plan.keys));
    plan.rows = kv_.sweep_rows(feed);
  } else {
    plan_block(canvas, plan, feed);
  }
  plan.block_begin = block_.begin;
  plan.block_end = block_.end;
  plan.inputs = fed(plan.rows, feed);
  plan.sparse.inputs = fed(plan.sparse.rows, feed);
  add_trials(canvas, asked_.separate ? plan.sparse.trials : plan.trials, feed);
  if (options_.cfg_scale > 0) {
    plan.cfg_scale = options_.cfg_scale;
    plan.unconditional = unconditional(canvas, plan.rows, plan.inputs);
    plan.sparse.unconditional = unconditional(canvas, plan.sparse.rows, plan.sparse.inputs);
    for (auto* trials : {&plan.trials, &plan.sparse.trials})
      for (Trial& trial : *trials) trial.unconditional = unconditional(canvas, trial.rows, trial.inputs);
  }
  kv_.planned(plan);
  return plan;
}

void BlockStrategy::plan_block(const Canvas& canvas, StepPlan& plan, std::vector<int32_t>& feed) {
  move_to_open_block(canvas);
  const Block& block = block_;
  asked_.masks = masks_of(canvas, block);
  if (reviser_) asked_.look = reviser_->look(canvas, block);
  if (length_) length_->enter(block);
  if (speculation_) speculation_->overlay(block, feed);
  const int32_t own_keys = set_keys(canvas, plan);
  feed.resize(static_cast<size_t>(plan.keys));
  asked_.separate =
      options_.revision == Revision::dual_path && options_.revise_path == RevisePath::separate && kv_.covers(feed);
  plan.logits = rows_of(merged(asked_.masks, asked_.look.peeks));
  plan.rows = kv_.rows(feed, block, plan.logits, asked_.separate);
  if (options_.ahead_steps > 0) {
    for (int32_t p = block.end; p < own_keys; ++p)
      if (canvas.states[static_cast<size_t>(p)] == TokenState::masked &&
          std::ranges::binary_search(plan.rows, row_of(p)))
        asked_.ahead.push_back(p);
    plan.logits = merged(plan.logits, rows_of(asked_.ahead));
  }
  if (length_) {
    asked_.ends = length_->last_positions(block);
    const auto ends = rows_of(asked_.ends);
    if (std::ranges::includes(plan.rows, ends))
      plan.logits = merged(plan.logits, ends);
    else
      asked_.ends.clear();
  }
  if (speculation_) {
    const auto masks = static_cast<int64_t>(asked_.masks.size());
    asked_.lookahead = speculation_->lookahead(canvas, block, own_keys, masks, plan.rows);
    const auto ahead = rows_of(asked_.lookahead);
    plan.logits = merged(plan.logits, ahead);
    plan.rows = merged(plan.rows, ahead);
  }
  if (asked_.separate) {
    std::ranges::set_difference(kv_.stale(feed, block.begin), plan.rows, std::back_inserter(plan.sparse.rows));
  }
}

void BlockStrategy::add_trials(const Canvas& canvas, std::vector<Trial>& trials, std::span<const int32_t> feed) const {
  for (const int32_t position : asked_.look.trials) {
    Trial trial = {.rows = {position}, .inputs = {canvas.mask_id}, .logits = row_of(position)};
    if (trial.logits != position) {
      trial.rows.insert(trial.rows.begin(), trial.logits);
      trial.inputs.insert(trial.inputs.begin(), feed[static_cast<size_t>(trial.logits)]);
    }
    trials.push_back(std::move(trial));
  }
}

// ---- Accept

Candidate BlockStrategy::candidate(const Prediction& given, int32_t position, bool may_have_credit) {
  const Prediction p = credit_ && may_have_credit ? credit_->fuse(position, given) : given;
  Settling& settling = settling_[static_cast<size_t>(position)];
  settling.sure = p.probability > options_.ahead_threshold ? (settling.token == p.token ? settling.sure : 0) + 1 : 0;
  settling.repeats = settling.token == p.token ? settling.repeats + 1 : 1;
  settling.token = p.token;
  const double score =
      options_.remasking == Remasking::low_confidence
          ? p.probability
          : uniform(options_.seed, static_cast<uint64_t>(forward_), static_cast<uint64_t>(position), kPositionDraw);
  return {position, p.token, score, p.probability, p.entropy, p.margin, settling.repeats};
}

std::vector<Edit> BlockStrategy::decide(std::span<const Candidate> candidates) {
  if (candidates.empty()) return {};
  if (is_dream(options_.acceptance))
    step_ = dream_step(static_cast<int64_t>(candidates.size()), block_steps_[current_], step_);
  const auto confirmed = speculation_ ? speculation_->confirm(candidates) : std::vector<size_t>();
  const auto taken = choose(options_, candidates,
                            {.masks = blocks_[current_].masks,
                             .length = options_.block_length,
                             .steps = block_steps_[current_],
                             .step = step_},
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

// Agreement over time stands for what the block's own surroundings would say (cross-block early commit of arXiv
// 2604.08964, with equal tokens in place of its divergence between distributions, which a forward does not report). An
// end token is not kept: what stands before it is still open.
bool BlockStrategy::is_early(const Candidate& c) const {
  return settling_[static_cast<size_t>(c.position)].sure >= options_.ahead_steps &&
         std::ranges::find(ids_.end_ids, c.token) == ids_.end_ids.end();
}

// The gate is asked of the block and what lies behind it together; of the block it has let through what is in `edits`.
void BlockStrategy::add_early(std::span<const Candidate> candidates, std::vector<Edit>& edits) const {
  std::vector<size_t> taken;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& c = candidates[i];
    const bool own = c.position < block_.end;
    if (own ? std::ranges::binary_search(edits, c.position, {}, &Edit::position) : is_early(c)) taken.push_back(i);
  }
  if (options_.entropy_gate > 0) taken = gate_entropy(candidates, std::move(taken), options_.entropy_gate);
  for (const size_t i : taken)
    if (const Candidate& c = candidates[i]; c.position >= block_.end)
      edits.push_back({c.position, c.token, TokenState::stable, c.probability});
}

std::vector<Edit> BlockStrategy::accept(const Canvas& canvas, const StepResult& result) {
  const auto at_row = [&](int32_t row) {
    return *std::ranges::lower_bound(result.predictions, row, {}, &Prediction::position);
  };
  std::vector<Candidate> candidates;
  double open_nats = 0;  // in masks on the left that will probably stay open
  const auto add_candidate = [&](const Prediction& given, int32_t position) {
    const bool may_have_credit = options_.entropy_gate == 0 || open_nats <= kCreditOpen;
    candidates.push_back(candidate(given, position, may_have_credit));
    if (candidates.back().probability < options_.threshold) open_nats += given.entropy;
  };
  for (const int32_t p : asked_.masks) add_candidate(at_row(row_of(p)), p);
  std::vector<Edit> edits = decide(candidates);
  if (!asked_.ahead.empty()) {
    for (const int32_t p : asked_.ahead) add_candidate(at_row(row_of(p)), p);
    add_early(candidates, edits);
  }
  if (length_) {
    std::vector<Prediction> ends;
    for (const int32_t p : asked_.ends) ends.push_back(at_row(row_of(p)));
    length_->answered(block_, ends);
  }
  for (const int32_t p : asked_.lookahead) speculation_->propose(p, at_row(row_of(p)));
  if (reviser_) {
    std::vector<Prediction> seen = asked_.separate ? result.sparse : result.trials;
    for (size_t i = 0; i < seen.size(); ++i) seen[i].position = asked_.look.trials[i];
    for (const int32_t p : asked_.look.peeks) {
      seen.push_back(at_row(row_of(p)));
      seen.back().position = p;
    }
    reviser_->merge(canvas, block_, seen, edits);
    // What a position that is masked again was predicted to be is no agreement with what comes.
    for (const Edit& edit : edits)
      if (edit.state == TokenState::masked) settling_[static_cast<size_t>(edit.position)] = {};
  }
  step_ += !asked_.sweep;
  ++forward_;
  return edits;
}

// ---- Progress

bool BlockStrategy::done(const Canvas& canvas) const {
  const auto open = std::ranges::find(canvas.states, TokenState::masked);
  if (open == canvas.states.end()) {
    return !reviser_ ||
           (!reviser_->sweep_due(canvas) && !(entered_ && reviser_->keeps_open(canvas, blocks_[current_])));
  }
  if (canvas.infill || options_.early_stop == EarlyStop::none) return false;
  if (options_.early_stop == EarlyStop::answer) return answer_is_final(canvas, ids_);
  const int64_t begin = generated_begin(canvas);
  const int64_t end = finished_end(open - canvas.states.begin());
  return first_end(canvas, begin, end, ids_.end_ids) < end && answer_is_final(canvas, ids_);
}

int64_t BlockStrategy::step_bound() const {
  int64_t bound = 0, masks = 0;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    bound += std::min(block_steps_[i], blocks_[i].masks);  // every forward of a block commits something
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

bool BlockStrategy::is_open(const Canvas& canvas, const Block& block) const {
  const auto end = canvas.states.begin() + block.end;
  return std::find(canvas.states.begin() + block.begin, end, TokenState::masked) != end;
}

void BlockStrategy::move_to_open_block(const Canvas& canvas) {
  while (!is_open(canvas, blocks_[current_]) &&
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
