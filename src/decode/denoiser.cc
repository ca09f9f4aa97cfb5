#include "decode/denoiser.h"

#include <utility>

#include "base/check.h"
#include "decode/answer.h"
#include "decode/canvas.h"
#include "decode/contract.h"

namespace llada::decode {
namespace {

int64_t trial_rows_of(const StepPlan& plan) {
  int64_t rows = 0;
  for (const auto* trials : {&plan.trials, &plan.sparse.trials})
    for (const Trial& trial : *trials) rows += static_cast<int64_t>(trial.rows.size());
  return rows;
}

int64_t streams_of(const StepPlan& plan) { return plan.cfg_scale > 0 ? 2 : 1; }

void count_forward(const StepPlan& plan, RunStats& stats) {
  const int64_t sparse = plan.sparse.empty() ? 0 : 1;
  stats.nfe += 1 + sparse;
  stats.sparse_forwards += sparse;
  stats.full_forwards += static_cast<int64_t>(plan.rows.size()) == plan.keys;
  stats.rows += rows_of(plan);
  stats.draft_states += static_cast<int64_t>(plan.drafts.size());
  for (const StepPlan& draft : plan.drafts) {
    stats.draft_rows += rows_of(draft);
    stats.logit_rows += streams_of(plan) * static_cast<int64_t>(draft.logits.size());
  }
  stats.trial_rows += streams_of(plan) * trial_rows_of(plan);
  stats.logit_rows +=
      streams_of(plan) * static_cast<int64_t>(plan.logits.size() + plan.trials.size() + plan.sparse.trials.size());
}

}  // namespace

int64_t rows_of(const StepPlan& plan) {
  int64_t rows =
      streams_of(plan) * (static_cast<int64_t>(plan.rows.size() + plan.sparse.rows.size()) + trial_rows_of(plan));
  for (const StepPlan& draft : plan.drafts) rows += rows_of(draft);
  return rows;
}

Denoiser::Denoiser(Canvas canvas, std::shared_ptr<Strategy> strategy, DraftLimits drafts)
    : canvas_(std::move(canvas)),
      strategy_(std::move(strategy)),
      begin_(generated_begin(canvas_)),
      bound_(strategy_->step_bound()),
      done_(strategy_->done(canvas_)) {
  stats_.stopped_early = done_ && count_masked(canvas_) > 0;
  if (drafts.most != 0) drafts_.emplace(std::move(drafts));
}

void Denoiser::follow(std::vector<int32_t> text) {
  LLADA_CHECK(std::ssize(text) == canvas_.size());
  text_ = std::move(text);
}

Status Denoiser::plan_next() {
  LLADA_CHECK(!done_);
  if (planned_) return {};
  if (stats_.steps == bound_) return failed("strategy: not done after its bound of {} steps", bound_);
  plan_ = strategy_->plan(canvas_);
  LLADA_TRY_STATUS(check_plan(*plan_, canvas_));
  planned_ = true;
  drafted_ = !drafts_;
  return {};
}

Result<std::reference_wrapper<const StepPlan>> Denoiser::plan() {
  LLADA_TRY_STATUS(plan_next());
  if (!drafted_) {
    drafts_->add(*plan_, *strategy_, canvas_);
    drafted_ = true;
    LLADA_TRY_STATUS(check_plan(*plan_, canvas_));
  }
  return std::cref(*plan_);
}

Result<std::optional<StepEvent>> Denoiser::take_known() {
  if (!drafts_ || planned_) return std::nullopt;
  LLADA_TRY_STATUS(plan_next());
  auto known = drafts_->ask(*plan_, *strategy_, canvas_);
  if (!known) return std::nullopt;
  drafts_->used(*plan_, *known);
  ++stats_.saved_forwards;
  result_ = std::move(*known);
  LLADA_TRY(StepEvent event, accept());
  event.known = true;
  return std::optional<StepEvent>(event);
}

Result<StepEvent> Denoiser::take(StepResult result) {
  LLADA_CHECK(planned_);
  result_ = std::move(result);
  const Status fits = check_result(*plan_, canvas_, result_);
  done_ = !fits;
  LLADA_TRY_STATUS(fits);
  count_forward(*plan_, stats_);
  if (drafts_) drafts_->ran(*plan_, result_);
  return accept();
}

// What the planned step brought is in result_.
Result<StepEvent> Denoiser::accept() {
  planned_ = false;
  done_ = true;  // should anything be wrong
  edits_ = strategy_->accept(canvas_, result_);
  LLADA_TRY_STATUS(check_edits(canvas_, edits_));
  if (!text_.empty())
    for (Edit& edit : edits_)
      if (edit.state != TokenState::masked) edit.token = text_[static_cast<size_t>(edit.position)];
  apply();
  stats_.counters = strategy_->counters();
  committed_ += final_length(canvas_, begin_ + committed_);
  done_ = stats_.cancelled || strategy_->done(canvas_);
  stats_.stopped_early = done_ && !stats_.cancelled && count_masked(canvas_) > 0;
  return StepEvent{stats_.steps++,   edits_,     result_.predictions,
                   canvas_,          committed_, plan_->block_begin,
                   plan_->block_end, *plan_,     result_};
}

void Denoiser::cancel() {
  done_ = stats_.cancelled = true;
  stats_.stopped_early = false;
}

void Denoiser::end() {
  done_ = true;
  stats_.stopped_early = count_masked(canvas_) > 0;
}

void Denoiser::apply() {
  for (const Edit& edit : edits_) {
    const auto i = static_cast<size_t>(edit.position);
    stats_.committed += canvas_.states[i] == TokenState::masked && edit.state != TokenState::masked;
    stats_.committed -= canvas_.states[i] != TokenState::masked && edit.state == TokenState::masked;
    stats_.edits += canvas_.tokens[i] != edit.token;
    canvas_.tokens[i] = edit.token;
    canvas_.states[i] = edit.state;
  }
}

Result<RunStats> denoise(Canvas& canvas, Strategy& strategy, StepRunner& runner,
                         const std::function<bool(const StepEvent&)>& on_step, DraftLimits drafts) {
  // Lent, not given: the caller keeps the strategy, and gets the canvas back whatever happens.
  Denoiser denoiser(std::move(canvas), std::shared_ptr<Strategy>(std::shared_ptr<Strategy>(), &strategy),
                    std::move(drafts));
  const auto tell = [&](const StepEvent& event) {
    if (on_step && !on_step(event)) denoiser.cancel();
  };
  const auto run = [&]() -> Status {
    while (!denoiser.done()) {
      LLADA_TRY(const auto known, denoiser.take_known());
      if (known) {
        tell(*known);
        continue;
      }
      LLADA_TRY(const StepPlan& plan, denoiser.plan());
      LLADA_TRY(auto result, runner.run(plan, denoiser.forward_number()));
      LLADA_TRY(const StepEvent event, denoiser.take(std::move(result)));
      tell(event);
    }
    return {};
  };
  const Status status = run();
  canvas = std::move(denoiser.canvas());
  LLADA_TRY_STATUS(status);
  return denoiser.stats();
}

}  // namespace llada::decode
