#include "decode/loop.h"

#include "decode/answer.h"
#include "decode/canvas.h"
#include "decode/contract.h"

namespace llada::decode {
namespace {

void apply(Canvas& canvas, std::span<const Edit> edits, RunStats& stats) {
  for (const Edit& edit : edits) {
    const auto i = static_cast<size_t>(edit.position);
    stats.committed += canvas.states[i] == TokenState::masked && edit.state != TokenState::masked;
    stats.committed -= canvas.states[i] != TokenState::masked && edit.state == TokenState::masked;
    stats.edits += canvas.tokens[i] != edit.token;
    canvas.tokens[i] = edit.token;
    canvas.states[i] = edit.state;
  }
}

void count_forward(const StepPlan& plan, RunStats& stats) {
  const int64_t streams = plan.cfg_scale > 0 ? 2 : 1;
  const auto rows = static_cast<int64_t>(plan.rows.size());
  int64_t trial_rows = 0;
  for (const auto* trials : {&plan.trials, &plan.sparse.trials})
    for (const Trial& trial : *trials) trial_rows += static_cast<int64_t>(trial.rows.size());
  const int64_t sparse = plan.sparse.empty() ? 0 : 1;
  stats.nfe += 1 + sparse;
  stats.sparse_forwards += sparse;
  stats.full_forwards += rows == plan.keys;
  stats.rows += streams * (rows + trial_rows + static_cast<int64_t>(plan.sparse.rows.size()));
  stats.trial_rows += streams * trial_rows;
  stats.logit_rows +=
      streams * static_cast<int64_t>(plan.logits.size() + plan.trials.size() + plan.sparse.trials.size());
}

}  // namespace

Result<RunStats> denoise(Canvas& canvas, Strategy& strategy, StepRunner& runner,
                         const std::function<bool(const StepEvent&)>& on_step) {
  RunStats stats;
  const int64_t begin = generated_begin(canvas);
  const int64_t bound = strategy.step_bound();
  int64_t committed = 0;
  while (!strategy.done(canvas)) {
    if (stats.steps == bound) return failed("strategy: not done after its bound of {} steps", bound);
    const StepPlan plan = strategy.plan(canvas);
    LLADA_TRY_STATUS(check_plan(plan, canvas));
    LLADA_TRY(const StepResult result, runner.run(plan, stats.nfe));
    LLADA_TRY_STATUS(check_result(plan, canvas, result));
    const std::vector<Edit> edits = strategy.accept(canvas, result);
    LLADA_TRY_STATUS(check_edits(canvas, edits));
    count_forward(plan, stats);
    apply(canvas, edits, stats);
    stats.counters = strategy.counters();
    committed += final_length(canvas, begin + committed);
    const int64_t step = stats.steps++;
    if (on_step && !on_step({step, edits, result.predictions, canvas, committed, plan.block_begin,
                             plan.block_end, plan, result})) {
      stats.cancelled = true;
      return stats;
    }
  }
  stats.stopped_early = count_masked(canvas) > 0;
  return stats;
}

}  // namespace llada::decode
