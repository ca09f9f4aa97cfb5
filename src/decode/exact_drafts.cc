#include "decode/exact_drafts.h"

#include <algorithm>
#include <utility>

#include "decode/denoiser.h"
#include "decode/pairs.h"
#include "decode/revision.h"
#include "decode/row_sets.h"

namespace llada::decode {
namespace {

constexpr size_t kMostStates = 64;     // of a chain
constexpr size_t kMostBranches = 4;    // of a chain; the ten states that would spare most have three
constexpr double kLeastChance = 0.05;  // below it a state is not worth its energy
// What is believed of a run before it has shown anything, and how many observations that is worth.
constexpr double kBelief = 4;

bool is_plain(const StepPlan& plan) { return plan.trials.empty() && plan.sparse.empty(); }

// Whether all that the state reads is there once the base's own rows are stored: what reaches further (a canvas that
// grows, a block that slides) has to be among the state's own rows.
bool reads_what_is_there(const StepPlan& state, const StepPlan& base) {
  const auto has_row = [&](int32_t p) { return std::ranges::binary_search(state.rows, p); };
  const auto own_keys = [](const StepPlan& plan) { return plan.keys - (plan.last >= 0 ? 1 : 0); };
  for (int32_t p = own_keys(base); p < own_keys(state); ++p)
    if (p != base.last && !has_row(p)) return false;
  return state.last < 0 || state.last == base.last || state.last < own_keys(base) || has_row(state.last);
}

// Whether the plan behind a state computes again what a step of its own would have stored.
bool stores_again(const StepPlan& next, const StepPlan& state) {
  return next.sparse.empty() && std::ranges::includes(next.rows, state.rows);
}

// Where it has no row of a prediction, the least certain one of a token that means nothing.
Prediction unknown(int32_t row, int32_t mask) {
  return {.position = row, .token = mask == 0 ? 1 : 0, .probability = 0};
}

}  // namespace

DraftLimits draft_limits(const DecodeOptions& options, std::vector<LatencyPoint> own_table) {
  return {.most = options.draft,
          .table = options.latency_table.empty() ? std::move(own_table) : options.latency_table,
          .slack = options.latency_slack,
          .scheduled = has_schedule(options.acceptance)};
}

double step_ms(std::span<const LatencyPoint> table, int64_t rows) {
  if (table.empty()) return 0;
  const auto point = std::ranges::find_if(table, [&](const LatencyPoint& p) { return p.rows >= rows; });
  if (point != table.end()) return point->ms;
  return table.back().ms * static_cast<double>(rows) / static_cast<double>(table.back().rows);
}

void ExactDrafts::remember(const std::vector<Prediction>& predictions) {
  for (const Prediction& p : predictions) last_[p.position] = p;
}

// None where a row was never predicted.
std::optional<StepResult> ExactDrafts::guess(const StepPlan& plan) const {
  StepResult result;
  for (const int32_t row : plan.logits) {
    const auto known = last_.find(row);
    if (known == last_.end()) return {};
    result.predictions.push_back(known->second);
  }
  return result;
}

// Whether a state may be used depends on the plan behind it, so the chain is laid one state further than it is used.
void ExactDrafts::lay_chain(const StepPlan& plan, const Strategy& planned, const Canvas& canvas) {
  chain_.clear();
  chain_.push_back({.plan = plan});
  at_ = 0;
  const auto strategy = planned.clone();
  if (strategy == nullptr || !is_plain(plan)) return;
  Canvas ahead = canvas;
  for (size_t here = 0; chain_.size() <= kMostStates;) {
    State& state = chain_[here];
    if (here > 0 && !is_plain(state.plan)) break;
    auto result = guess(state.plan);
    const bool known = result.has_value();
    if (!known && here == 0) return;
    if (!known) {
      result.emplace();
      for (const int32_t row : state.plan.logits) result->predictions.push_back(unknown(row, canvas.mask_id));
    }
    const size_t depth = state.depth + 1;
    const auto other = depth <= kMostBranches ? strategy->clone() : nullptr;
    const auto edits = strategy->accept(ahead, *result);
    const Canvas before = std::exchange(ahead, with_edits(ahead, edits));
    const bool readable = reads_what_is_there(state.plan, plan);
    if (strategy->done(ahead)) {
      state.usable = readable;
      return;
    }
    StepPlan next = strategy->plan(ahead);
    state.usable = readable && stores_again(next, state.plan);
    if (!known) return;
    const bool completes = next.block_begin != plan.block_begin;
    std::optional<StepPlan> branch;
    if (other != nullptr && edits.size() == 1 && !completes)
      branch = branch_off(*other, before, std::move(*result), edits[0].position);
    if (branch && *branch == next) branch.reset();
    here = chain_.size();
    chain_.push_back({.plan = std::move(next), .depth = depth, .completes = completes});
    if (branch) chain_.push_back({.plan = std::move(*branch), .depth = depth, .branch = true, .usable = true});
  }
}

// Where the rule decided one token: the state that it comes to if this token is not so sure as the last forward
// thought. None where it could not be used.
std::optional<StepPlan> ExactDrafts::branch_off(Strategy& strategy, const Canvas& canvas, StepResult guessed,
                                                int32_t surest) const {
  const auto doubted = std::ranges::find(guessed.predictions, surest, &Prediction::position);
  if (doubted == guessed.predictions.end()) return {};
  doubted->probability = 0;
  const Canvas second = with_edits(canvas, strategy.accept(canvas, guessed));
  if (strategy.done(second)) return {};
  StepPlan branch = strategy.plan(second);
  const StepPlan& base = chain_.front().plan;
  if (!is_plain(branch) || branch.block_begin != base.block_begin || !reads_what_is_there(branch, base)) return {};
  const auto result = guess(branch);
  if (!result) return {};
  const Canvas third = with_edits(second, strategy.accept(second, *result));
  if (!strategy.done(third) && !stores_again(strategy.plan(third), branch)) return {};
  return branch;
}

// The chance that the run goes from one state straight to another, a later one.
double ExactDrafts::chance(size_t from, size_t to) const {
  const size_t depth = chain_[from].depth;
  const auto known = moves_.find(depth);
  static const Moves kNone;
  const Moves& moves = known == moves_.end() ? kNone : known->second;
  const auto share = [&](int64_t seen, double belief) {
    return (static_cast<double>(seen) + kBelief * belief) / (static_cast<double>(moves.all) + kBelief);
  };
  const size_t step = chain_[to].depth - depth;
  if (step == 0 || (chain_[to].branch && (step > 1 || chain_[from].branch))) return 0;
  if (chain_[to].branch) return share(moves.branched, limits_.scheduled ? 0.1 : 0);
  const auto seen = moves.steps.find(step);
  const double next = depth == 0 ? 0.8 : 0.5;
  const double believed = limits_.scheduled ? (step == 1 ? next : 0) : 0.2 / static_cast<double>(step * step);
  const double by_step = share(seen == moves.steps.end() ? 0 : seen->second, believed);
  const bool first_complete = chain_[to].completes && !chain_[to - 1].completes;
  return std::min(1.0, by_step + (first_complete ? share(moves.completed, limits_.scheduled ? 0 : 0.3) : 0));
}

// Of the states that are not computed, the one that the run comes to most probably by computed ones alone.
std::optional<size_t> ExactDrafts::likeliest(double& chance_of_it) const {
  std::vector<double> reach(chain_.size(), 0);
  reach[0] = 1;
  std::optional<size_t> best;
  chance_of_it = 0;
  for (size_t to = 1; to < chain_.size(); ++to) {
    for (size_t from = 0; from < to; ++from)
      if (from == 0 || !chain_[from].predictions.empty()) reach[to] += reach[from] * chance(from, to);
    reach[to] = std::min(reach[to], 1.0);
    if (!chain_[to].predictions.empty() || !chain_[to].usable || reach[to] <= chance_of_it) continue;
    chance_of_it = reach[to];
    best = to;
  }
  return best;
}

bool ExactDrafts::pays(const StepPlan& draft, double chance, int64_t rows) {
  if (limits_.table.empty() || chance < kLeastChance) return false;
  const int64_t own = rows_of(draft);
  const double cost = step_ms(limits_.table, rows + own) - step_ms(limits_.table, rows);
  if (chance * step_ms(limits_.table, own) < cost) return false;
  if (spent_ms_ + cost > saved_ms_ + limits_.slack * plain_ms_) return false;
  spent_ms_ += cost;
  return true;
}

void ExactDrafts::add(StepPlan& plan, const Strategy& planned, const Canvas& canvas) {
  plain_ms_ += step_ms(limits_.table, rows_of(plan));
  lay_chain(plan, planned, canvas);
  int64_t rows = rows_of(plan);
  for (int64_t n = 0; limits_.most < 0 || n < limits_.most; ++n) {
    double chance_of_it = 0;
    const auto best = likeliest(chance_of_it);
    if (!best) break;
    State& state = chain_[*best];
    if (limits_.most < 0 && !pays(state.plan, chance_of_it, rows)) break;
    rows += rows_of(state.plan);
    state.predictions.emplace_back();  // marks it; ran() brings what it is
    plan.drafts.push_back(state.plan);
  }
}

void ExactDrafts::ran(const StepPlan& plan, StepResult& result) {
  size_t next = 0;
  for (size_t i = 1; i < chain_.size() && next < plan.drafts.size(); ++i)
    for (size_t d = 0; d < plan.drafts.size(); ++d)
      if (chain_[i].plan == plan.drafts[d]) chain_[i].predictions = std::move(result.drafts[d]), ++next;
  result.drafts.clear();
  remember(result.predictions);
  unstored_.clear();
}

// Where the run has gone from its last state.
void ExactDrafts::come_to(const StepPlan& plan) {
  if (!at_) return;
  const State& from = chain_[*at_];
  Moves& moves = moves_[from.depth];
  ++moves.all;
  size_t to = *at_ + 1;
  while (to < chain_.size() && chain_[to].plan != plan) ++to;
  if (to >= chain_.size()) {
    at_.reset();
    return;
  }
  if (const size_t step = chain_[to].depth - from.depth; chain_[to].branch)
    ++moves.branched;
  else if (step > 1 && chain_[to].completes)
    ++moves.completed;
  else
    ++moves.steps[step];
  at_ = to;
}

std::optional<StepResult> ExactDrafts::ask(const StepPlan& plan, const Strategy& planned, const Canvas& canvas) {
  if (chain_.empty()) return {};
  come_to(plan);
  if (!at_ || chain_[*at_].predictions.empty()) return {};
  StepResult result{.predictions = chain_[*at_].predictions};
  const auto strategy = planned.clone();
  const Canvas after = with_edits(canvas, strategy->accept(canvas, result));
  if (strategy->done(after)) return result;
  const StepPlan next = strategy->plan(after);
  const auto stored = merged(unstored_, plan.rows);
  if (!next.sparse.empty() || !std::ranges::includes(next.rows, stored)) return {};
  return result;
}

void ExactDrafts::used(const StepPlan& plan, const StepResult& result) {
  unstored_ = merged(unstored_, plan.rows);
  remember(result.predictions);
  saved_ms_ += step_ms(limits_.table, rows_of(plan));
}

}  // namespace llada::decode
