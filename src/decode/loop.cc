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
    stats.edits += canvas.tokens[i] != edit.token;
    canvas.tokens[i] = edit.token;
    canvas.states[i] = edit.state;
  }
}

void count_forward(const StepPlan& plan, const Canvas& canvas, RunStats& stats) {
  const int64_t streams = plan.cfg_scale > 0 ? 2 : 1;
  const auto rows = static_cast<int64_t>(plan.rows.size());
  stats.nfe += 1;
  stats.full_forwards += rows == canvas.size();
  stats.rows += streams * rows;
  stats.logit_rows += streams * static_cast<int64_t>(plan.logits.size());
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
    LLADA_TRY(const std::vector<Prediction> predictions, runner.run(plan, stats.nfe));
    LLADA_TRY_STATUS(check_predictions(plan, canvas, predictions));
    const std::vector<Edit> edits = strategy.accept(canvas, predictions);
    LLADA_TRY_STATUS(check_edits(canvas, edits));
    count_forward(plan, canvas, stats);
    apply(canvas, edits, stats);
    committed += final_length(canvas, begin + committed);
    const int64_t step = stats.steps++;
    if (on_step &&
        !on_step({step, edits, predictions, canvas, committed, plan.block_begin, plan.block_end, plan})) {
      stats.cancelled = true;
      return stats;
    }
  }
  stats.stopped_early = count_masked(canvas) > 0;
  return stats;
}

}  // namespace llada::decode
