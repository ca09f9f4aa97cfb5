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
  stats.trial_rows += streams_of(plan) * trial_rows_of(plan);
  stats.logit_rows +=
      streams_of(plan) * static_cast<int64_t>(plan.logits.size() + plan.trials.size() + plan.sparse.trials.size());
}

}  // namespace

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
}

void Denoiser::follow(std::vector<int32_t> text) {
  LLADA_CHECK(std::ssize(text) == canvas_.size());
  text_ = std::move(text);
}

Result<std::reference_wrapper<const StepPlan>> Denoiser::plan() {
  LLADA_CHECK(!done_);
  if (!planned_) {
    if (stats_.steps == bound_) return failed("strategy: not done after its bound of {} steps", bound_);
    plan_ = strategy_->plan(canvas_);
    LLADA_TRY_STATUS(check_plan(*plan_, canvas_));
    planned_ = true;
  }
  return std::cref(*plan_);
}

Result<StepEvent> Denoiser::take(StepResult result) {
  LLADA_CHECK(planned_);
  result_ = std::move(result);
  done_ = true;  // should anything be wrong
  LLADA_TRY_STATUS(check_result(*plan_, canvas_, result_));
  planned_ = false;
  count_forward(*plan_, stats_);
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
                         const std::function<bool(const StepEvent&)>& on_step) {
  // Lent, not given: the caller keeps the strategy, and gets the canvas back whatever happens.
  Denoiser denoiser(std::move(canvas), std::shared_ptr<Strategy>(std::shared_ptr<Strategy>(), &strategy));
  const auto run = [&]() -> Status {
    while (!denoiser.done()) {
      LLADA_TRY(const StepPlan& plan, denoiser.plan());
      LLADA_TRY(auto result, runner.run(plan, denoiser.forward_number()));
      LLADA_TRY(const StepEvent event, denoiser.take(std::move(result)));
      if (on_step && !on_step(event)) denoiser.cancel();
    }
    return {};
  };
  const Status status = run();
  canvas = std::move(denoiser.canvas());
  LLADA_TRY_STATUS(status);
  return denoiser.stats();
}

}  // namespace llada::decode
