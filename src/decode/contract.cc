#include "decode/contract.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace llada::decode {
namespace {

bool strictly_ascending(std::span<const int32_t> positions, int32_t end) {
  return std::ranges::adjacent_find(positions, std::ranges::greater_equal{}) == positions.end() &&
         (positions.empty() || (positions.front() >= 0 && positions.back() < end));
}

Status check_rows(std::string_view what, std::span<const int32_t> rows, size_t inputs, size_t unconditional,
                  const StepPlan& plan) {
  if (!strictly_ascending(rows, plan.keys))
    return failed("{}: rows are not ascending positions below {}", what, plan.keys);
  if (inputs != rows.size() || unconditional != (plan.cfg_scale > 0 ? rows.size() : 0))
    return failed("{}: found {} inputs and {} unconditional ones for {} rows", what, inputs, unconditional,
                  rows.size());
  return {};
}

Status check_trials(std::span<const Trial> trials, const StepPlan& plan) {
  for (const Trial& trial : trials) {
    LLADA_TRY_STATUS(check_rows("trial", trial.rows, trial.inputs.size(), trial.unconditional.size(), plan));
    if (!std::ranges::binary_search(trial.rows, trial.logits))
      return failed("trial: logits of {} are wanted, which is none of its rows", trial.logits);
  }
  return {};
}

Status check_prediction(const Prediction& p, int32_t row, const Canvas& canvas) {
  if (p.position != row) {
    return failed("forward: found a prediction for position {}, needed {}", p.position, row);
  }
  if (p.token < 0 || !canvas.may_hold(p.token, TokenState::visible)) {
    return failed("forward: position {}: found token {}, needed one that is not the mask", p.position, p.token);
  }
  // Softmax sums may round to just above 1.
  if (!(p.probability >= 0 && p.probability <= 1 + 1e-6) || !std::isfinite(p.entropy) || !std::isfinite(p.margin)) {
    return failed("forward: position {}: found probability {}, entropy {}, margin {}, needed finite numbers",
                  p.position, p.probability, p.entropy, p.margin);
  }
  return {};
}

Status check_predictions(const StepPlan& plan, const Canvas& canvas, std::span<const Prediction> predictions) {
  if (predictions.size() != plan.logits.size()) {
    return failed("forward: found {} predictions, needed {}", predictions.size(), plan.logits.size());
  }
  for (size_t i = 0; i < predictions.size(); ++i)
    LLADA_TRY_STATUS(check_prediction(predictions[i], plan.logits[i], canvas));
  return {};
}

Status check_trial_results(std::span<const Trial> trials, const Canvas& canvas,
                           std::span<const Prediction> predictions) {
  if (predictions.size() != trials.size())
    return failed("forward: found {} predictions of trials, needed {}", predictions.size(), trials.size());
  for (size_t i = 0; i < trials.size(); ++i)
    LLADA_TRY_STATUS(check_prediction(predictions[i], trials[i].logits, canvas));
  return {};
}

}  // namespace

Status check_plan(const StepPlan& plan, const Canvas& canvas) {
  if (plan.keys < 1 || plan.keys > canvas.size()) {
    return failed("plan: found {} keys, needed 1 to {}", plan.keys, canvas.size());
  }
  if (plan.rows.empty() && plan.trials.empty()) return failed("plan: rows are missing, and there is no trial");
  LLADA_TRY_STATUS(check_rows("plan", plan.rows, plan.inputs.size(), plan.unconditional.size(), plan));
  if (!strictly_ascending(plan.logits, plan.keys) || !std::ranges::includes(plan.rows, plan.logits)) {
    return failed("plan: logits are not an ascending part of the rows");
  }
  if (plan.block_begin < 0 || plan.block_begin > plan.block_end || plan.block_end > canvas.size()) {
    return failed("plan: found the block {} to {}, needed it inside 0 to {}", plan.block_begin, plan.block_end,
                  canvas.size());
  }
  LLADA_TRY_STATUS(check_trials(plan.trials, plan));
  const SparsePlan& sparse = plan.sparse;
  LLADA_TRY_STATUS(check_rows("sparse plan", sparse.rows, sparse.inputs.size(), sparse.unconditional.size(), plan));
  std::vector<int32_t> twice;
  std::ranges::set_intersection(plan.rows, sparse.rows, std::back_inserter(twice));
  if (!twice.empty()) return failed("sparse plan: row {} is computed by the step itself", twice.front());
  return check_trials(sparse.trials, plan);
}

Status check_result(const StepPlan& plan, const Canvas& canvas, const StepResult& result) {
  LLADA_TRY_STATUS(check_predictions(plan, canvas, result.predictions));
  LLADA_TRY_STATUS(check_trial_results(plan.trials, canvas, result.trials));
  LLADA_TRY_STATUS(check_trial_results(plan.sparse.trials, canvas, result.sparse));
  return {};
}

Status check_edits(const Canvas& canvas, std::span<const Edit> edits) {
  int64_t previous = -1;
  for (const Edit& edit : edits) {
    if (edit.position <= previous || edit.position >= canvas.size()) {
      return failed("edit: found position {} after {}, needed ascending ones below {}", edit.position, previous,
                    canvas.size());
    }
    previous = edit.position;
    const TokenState state = canvas.states[static_cast<size_t>(edit.position)];
    if (state == TokenState::fixed || state == TokenState::stable) {
      return failed("edit: position {} is {}, needed one that may change", edit.position,
                    state == TokenState::fixed ? "fixed" : "stable");
    }
    if (edit.token < 0 || edit.state == TokenState::fixed || !canvas.may_hold(edit.token, edit.state)) {
      return failed("edit: position {}: found token {} that does not fit its state", edit.position, edit.token);
    }
  }
  return {};
}

}  // namespace llada::decode
