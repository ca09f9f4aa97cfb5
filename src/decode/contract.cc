#include "decode/contract.h"

#include <algorithm>
#include <cmath>

namespace llada::decode {
namespace {

bool strictly_ascending(std::span<const int32_t> positions, int32_t end) {
  return std::ranges::adjacent_find(positions, std::ranges::greater_equal{}) == positions.end() &&
         (positions.empty() || (positions.front() >= 0 && positions.back() < end));
}

}  // namespace

Status check_plan(const StepPlan& plan, const Canvas& canvas) {
  if (plan.keys < 1 || plan.keys > canvas.size()) {
    return failed("plan: found {} keys, needed 1 to {}", plan.keys, canvas.size());
  }
  if (plan.rows.empty() || !strictly_ascending(plan.rows, plan.keys)) {
    return failed("plan: rows are not ascending positions below {}", plan.keys);
  }
  if (!strictly_ascending(plan.logits, plan.keys) || !std::ranges::includes(plan.rows, plan.logits)) {
    return failed("plan: logits are not an ascending part of the rows");
  }
  const size_t unconditional = plan.cfg_scale > 0 ? plan.rows.size() : 0;
  if (plan.inputs.size() != plan.rows.size() || plan.unconditional.size() != unconditional) {
    return failed("plan: found {} inputs and {} unconditional ones for {} rows", plan.inputs.size(),
                  plan.unconditional.size(), plan.rows.size());
  }
  if (plan.block_begin < 0 || plan.block_begin > plan.block_end || plan.block_end > canvas.size()) {
    return failed("plan: found the block {} to {}, needed it inside 0 to {}", plan.block_begin,
                  plan.block_end, canvas.size());
  }
  return {};
}

Status check_predictions(const StepPlan& plan, const Canvas& canvas,
                         std::span<const Prediction> predictions) {
  if (predictions.size() != plan.logits.size()) {
    return failed("forward: found {} predictions, needed {}", predictions.size(), plan.logits.size());
  }
  for (size_t i = 0; i < predictions.size(); ++i) {
    const Prediction& p = predictions[i];
    if (p.position != plan.logits[i]) {
      return failed("forward: found a prediction for position {}, needed {}", p.position, plan.logits[i]);
    }
    if (p.token < 0 || p.token == canvas.mask_id) {
      return failed("forward: position {}: found token {}, needed one that is not the mask", p.position,
                    p.token);
    }
    // Softmax sums may round to just above 1.
    if (!(p.probability >= 0 && p.probability <= 1 + 1e-6) || !std::isfinite(p.entropy) ||
        !std::isfinite(p.margin)) {
      return failed(
          "forward: position {}: found probability {}, entropy {}, margin {}, needed finite numbers",
          p.position, p.probability, p.entropy, p.margin);
    }
  }
  return {};
}

Status check_edits(const Canvas& canvas, std::span<const Edit> edits) {
  int64_t previous = -1;
  for (const Edit& edit : edits) {
    if (edit.position <= previous || edit.position >= canvas.size()) {
      return failed("edit: found position {} after {}, needed ascending ones below {}", edit.position,
                    previous, canvas.size());
    }
    previous = edit.position;
    const TokenState state = canvas.states[static_cast<size_t>(edit.position)];
    if (state == TokenState::fixed || state == TokenState::stable) {
      return failed("edit: position {} is {}, needed one that may change", edit.position,
                    state == TokenState::fixed ? "fixed" : "stable");
    }
    if (edit.token < 0 || edit.state == TokenState::fixed ||
        (edit.token == canvas.mask_id) != (edit.state == TokenState::masked)) {
      return failed("edit: position {}: found token {} that does not fit its state", edit.position,
                    edit.token);
    }
  }
  return {};
}

}  // namespace llada::decode
