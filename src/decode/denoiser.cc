#include "decode/denoiser.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "decode/answer.h"
#include "decode/canvas.h"

namespace llada::decode {
namespace {

// ---- The contract between canvas, strategy and runner, checked in every step (plan() and take()). It costs nothing
// beside a forward, and a broken side is named at once instead of spoiling the text. Errors are `failed`: none of it is
// the user's doing.

bool strictly_ascending(std::span<const int32_t> positions, int32_t end) {
  return std::ranges::adjacent_find(positions, std::ranges::greater_equal{}) == positions.end() &&
         (positions.empty() || (positions.front() >= 0 && positions.back() < end));
}

// Checks a plan, its sparse plan or a trial: ascending rows with one input each, with guidance also an unconditional
// one.
template <class Part>
Status check_rows(std::string_view what, const Part& part, int32_t keys, const StepPlan& plan) {
  if (!strictly_ascending(part.rows, keys)) return failed("{}: rows are not ascending positions below {}", what, keys);
  if (part.inputs.size() != part.rows.size() ||
      part.unconditional.size() != (plan.cfg_scale > 0 ? part.rows.size() : 0))
    return failed("{}: found {} inputs and {} unconditional ones for {} rows", what, part.inputs.size(),
                  part.unconditional.size(), part.rows.size());
  return {};
}

// One for each row, none twice.
Status check_places(const StepPlan& plan) {
  std::vector<int32_t> places = plan.places;
  std::ranges::sort(places);
  if (places.size() == plan.rows.size() && strictly_ascending(places, plan.keys) && plan.cfg_scale == 0 &&
      plan.trials.empty() && plan.sparse.empty())
    return {};
  return failed(
      "plan: found {} places for {} rows, needed one below {} for each, and no guidance, trial or sparse plan",
      places.size(), plan.rows.size(), plan.keys);
}

Status check_prediction(const Prediction& p, int32_t row, const Canvas& canvas) {
  if (p.position != row) return failed("forward: found a prediction for position {}, needed {}", p.position, row);
  if (p.token < 0 || !canvas.may_hold(p.token, TokenState::visible))
    return failed("forward: position {}: found token {}, needed one that is not the mask", p.position, p.token);
  // Softmax sums may round to just above 1.
  if (!(p.probability >= 0 && p.probability <= 1 + 1e-6) || !std::isfinite(p.entropy) || !std::isfinite(p.margin))
    return failed("forward: position {}: found probability {}, entropy {}, margin {}, needed finite numbers",
                  p.position, p.probability, p.entropy, p.margin);
  return {};
}

// ----

int64_t trial_rows_of(const StepPlan& plan) {
  int64_t rows = 0;
  for (const auto* trials : {&plan.trials, &plan.sparse.trials})
    for (const Trial& trial : *trials) rows += static_cast<int64_t>(trial.rows.size());
  return rows;
}

int64_t streams_of(const StepPlan& plan) { return plan.cfg_scale > 0 ? 2 : 1; }

void count_forward(const StepPlan& plan, RunStats& stats) {
  stats.nfe += forwards_of(plan);
  stats.sparse_forwards += plan.sparse.empty() ? 0 : 1;
  stats.full_forwards += static_cast<int64_t>(plan.rows.size()) == plan.keys;
  stats.rows += rows_of(plan);
  stats.trial_rows += streams_of(plan) * trial_rows_of(plan);
  stats.logit_rows +=
      streams_of(plan) * static_cast<int64_t>(plan.logits.size() + plan.trials.size() + plan.sparse.trials.size());
}

}  // namespace

int64_t forwards_of(const StepPlan& plan) {
  return (plan.rows.empty() && plan.trials.empty() ? 0 : 1) + (plan.sparse.empty() ? 0 : 1);
}

int64_t rows_of(const StepPlan& plan) {
  return streams_of(plan) * (static_cast<int64_t>(plan.rows.size() + plan.sparse.rows.size()) + trial_rows_of(plan));
}

Denoiser::Denoiser(Canvas canvas, std::shared_ptr<Strategy> strategy)
    : canvas_(std::move(canvas)),
      strategy_(std::move(strategy)),
      begin_(generated_begin(canvas_)),
      bound_(strategy_->step_bound()),
      done_(strategy_->done(canvas_)) {
  stats_.stopped_early = done_ && count_masked(canvas_) > 0;
  for (size_t p = 0; p < canvas_.states.size(); ++p)
    if (canvas_.states[p] != TokenState::fixed && canvas_.states[p] != TokenState::masked)
      begun_.push_back({.position = static_cast<int32_t>(p),
                        .token = canvas_.tokens[p],
                        .state = canvas_.states[p],
                        .confidence = 1,
                        .by_form = true});
}

void Denoiser::follow(std::vector<int32_t> text) {
  LLADA_CHECK(std::ssize(text) == canvas_.size());
  text_ = std::move(text);
}

Result<std::reference_wrapper<const StepPlan>> Denoiser::plan() {
  LLADA_CHECK(!done_);
  if (planned_) return std::cref(*plan_);
  if (stats_.steps == bound_) return failed("strategy: not done after its bound of {} steps", bound_);
  plan_ = strategy_->plan(canvas_);
  const StepPlan& plan = *plan_;
  const SparsePlan& sparse = plan.sparse;
  if (plan.keys < 1 || plan.keys > canvas_.size())
    return failed("plan: found {} keys, needed 1 to {}", plan.keys, canvas_.size());
  if (plan.causal_below < 0 || plan.causal_below > plan.keys)
    return failed("plan: rows below {} are causal, needed 0 to its {} keys", plan.causal_below, plan.keys);
  if (!plan.places.empty()) LLADA_TRY_STATUS(check_places(plan));
  if (forwards_of(plan) == 0 && plan.landing.when != Landing::When::waited)
    return failed("plan: found no rows, no trial and no pass that lands, needed one of these");
  if (!sparse.empty() && (sparse.keys < 1 || sparse.keys > plan.keys))
    return failed("sparse plan: found {} keys, needed 1 to the step's {}", sparse.keys, plan.keys);
  LLADA_TRY_STATUS(check_rows("plan", plan, plan.keys, plan));
  LLADA_TRY_STATUS(check_rows("sparse plan", sparse, sparse.keys, plan));
  if (!strictly_ascending(plan.logits, plan.keys) || !std::ranges::includes(plan.rows, plan.logits))
    return failed("plan: logits are not an ascending part of the rows");
  if (plan.encode && (!plan.logits.empty() || plan.cfg_scale > 0 || !plan.trials.empty() || !sparse.empty()))
    return failed("plan: found predictions, guidance, trials or a sparse plan beside a prompt that is encoded");
  if (plan.draws.size() != (plan.temperature > 0 ? plan.logits.size() : 0))
    return failed("plan: found {} draws for {} predictions at the temperature {}", plan.draws.size(),
                  plan.logits.size(), plan.temperature);
  if (plan.block_begin < 0 || plan.block_begin > plan.block_end || plan.block_end > canvas_.size())
    return failed("plan: found the block {} to {}, needed it inside 0 to {}", plan.block_begin, plan.block_end,
                  canvas_.size());
  for (const auto& [trials, keys] : {std::pair(&plan.trials, plan.keys), {&sparse.trials, sparse.keys}})
    for (const Trial& trial : *trials) {
      LLADA_TRY_STATUS(check_rows("trial", trial, keys, plan));
      if (!std::ranges::binary_search(trial.rows, trial.logits))
        return failed("trial: found logits wanted at position {}, needed one of its rows", trial.logits);
    }
  if (!sparse.empty()) beside_ = sparse, beside_canvas_ = canvas_;
  const Landing& landing = plan.landing;
  if (landing.when != Landing::When::not_yet && !beside_) return failed("plan: a pass lands, and none is under way");
  if (!strictly_ascending(landing.stored, plan.keys) ||
      (beside_ && !std::ranges::includes(beside_->rows, landing.stored)))
    return failed("plan: K/V lands that the pass under way does not compute");
  for (const int32_t row : landing.stored)
    if (std::ranges::binary_search(plan.rows, row))
      return failed("plan: row {} lands, and is computed by the step itself", row);
  planned_ = true;
  return std::cref(plan);
}

Result<StepEvent> Denoiser::take(StepResult result) {
  LLADA_CHECK(planned_);
  result_ = std::move(result);
  done_ = true;  // should anything be wrong
  const StepPlan& plan = *plan_;
  if (result_.predictions.size() != plan.logits.size())
    return failed("forward: found {} predictions, needed {}", result_.predictions.size(), plan.logits.size());
  for (size_t i = 0; i < plan.logits.size(); ++i)
    LLADA_TRY_STATUS(check_prediction(result_.predictions[i], plan.logits[i], canvas_));
  if (result_.drawn.size() != plan.draws.size() || std::ranges::any_of(result_.drawn, [](int32_t t) { return t < 0; }))
    return failed("forward: found {} drawn tokens, needed {} that are none below 0", result_.drawn.size(),
                  plan.draws.size());
  if (result_.ranked.size() != plan.logits.size() * static_cast<size_t>(plan.ranked))
    return failed("forward: found {} ranked tokens, needed {} of each prediction", result_.ranked.size(), plan.ranked);
  if (result_.landed ? plan.landing.when == Landing::When::not_yet : plan.landing.when == Landing::When::waited)
    return failed("forward: the sparse pass {}", result_.landed ? "landed too early" : "did not land");
  landed_ = result_.landed ? *std::exchange(beside_, {}) : SparsePlan{};
  for (const auto& [trials, found] : {std::pair(&plan.trials, &result_.trials), {&landed_.trials, &result_.sparse}}) {
    if (found->size() != trials->size())
      return failed("forward: found {} predictions of trials, needed {}", found->size(), trials->size());
    for (size_t i = 0; i < trials->size(); ++i)
      LLADA_TRY_STATUS(check_prediction((*found)[i], (*trials)[i].logits, canvas_));
  }
  planned_ = false;
  count_forward(plan, stats_);
  edits_ = strategy_->accept(canvas_, result_);
  int64_t previous = -1;
  for (Edit& edit : edits_) {
    if (edit.position <= previous || edit.position >= canvas_.size())
      return failed("edit: found position {} after {}, needed ascending ones below {}", edit.position, previous,
                    canvas_.size());
    previous = edit.position;
    const TokenState state = canvas_.states[static_cast<size_t>(edit.position)];
    if (state == TokenState::fixed || state == TokenState::stable)
      return failed("edit: position {} is {}, needed one that may change", edit.position,
                    state == TokenState::fixed ? "fixed" : "stable");
    if (edit.from < -1 || edit.from >= canvas_.size())
      return failed("edit: position {}: found a token from {}, needed one of the canvas", edit.position, edit.from);
    if (edit.token < 0 || edit.state == TokenState::fixed || !canvas_.may_hold(edit.token, edit.state))
      return failed("edit: position {}: found token {} that does not fit its state", edit.position, edit.token);
    if (!text_.empty() && edit.state != TokenState::masked) edit.token = text_[static_cast<size_t>(edit.position)];
  }
  for (const Edit& edit : edits_) {
    const auto i = static_cast<size_t>(edit.position);
    stats_.committed += canvas_.is_undecided(edit.position) && edit.state != TokenState::masked;
    stats_.committed -= !canvas_.is_undecided(edit.position) && edit.state == TokenState::masked;
    stats_.edits += canvas_.tokens[i] != edit.token;
    canvas_.tokens[i] = edit.token;
    canvas_.states[i] = edit.state;
  }
  if (!begun_.empty()) {
    stats_.committed += std::ssize(begun_);
    edits_.insert(edits_.end(), begun_.begin(), begun_.end());
    std::ranges::sort(edits_, {}, &Edit::position);
    begun_.clear();
  }
  stats_.counters = strategy_->counters();
  committed_ += final_length(canvas_, begin_ + committed_);
  done_ = stats_.cancelled || strategy_->done(canvas_);
  stats_.stopped_early = done_ && !stats_.cancelled && count_masked(canvas_) > 0;
  return StepEvent{stats_.steps++,
                   edits_,
                   result_.predictions,
                   canvas_,
                   committed_,
                   plan.block_begin,
                   plan.block_end,
                   plan,
                   result_,
                   result_.landed ? &landed_ : nullptr};
}

void Denoiser::cancel() {
  done_ = stats_.cancelled = true;
  stats_.stopped_early = false;
}

void Denoiser::end() {
  done_ = true;
  stats_.stopped_early = count_masked(canvas_) > 0;
}

}  // namespace llada::decode
