#include "decode/uniform_canvas.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "decode/field_entry.h"

namespace llada::decode {
namespace {

constexpr uint64_t kRandomToken = kPositionDraw - 1;  // no id either

struct Row {
  Prediction prediction;
  int32_t drawn = -1;
};

// weights: memory that rows share.
Row temper_row(std::span<const float> logits, double temperature, double draw, const Told& told,
               std::vector<double>& weights) {
  constexpr double kNothing = -60;  // e to this is lost in a sum of doubles, even 2^26 times
  Row row;
  Prediction& p = row.prediction;
  if (!std::ranges::all_of(logits, [](float x) { return std::isfinite(x); })) return row;
  const auto best = std::ranges::max_element(logits);
  p.token = static_cast<int32_t>(best - logits.begin());
  p.logit = *best;
  double sum = 0, weighted = 0;
  weights.clear();
  for (const float logit : logits) {
    const double below = (static_cast<double>(logit) - *best) / temperature;
    const double weight = below < kNothing ? 0 : std::exp(below);
    weights.push_back(weight);
    sum += weight;
    weighted += weight * below;
  }
  told(weights, sum);
  p.probability = 1 / sum;
  p.entropy = std::max(0.0, std::log(sum) - weighted / sum);
  double left = draw * sum;
  for (size_t id = 0; id < weights.size() && left >= 0; ++id) {
    if (weights[id] > 0) row.drawn = static_cast<int32_t>(id);  // rounding may leave the draw above the sum of all
    left -= weights[id];
  }
  weights[static_cast<size_t>(p.token)] = -1;
  const auto second = std::ranges::max_element(weights);
  p.runner_up = *second < 0 ? -1 : static_cast<int32_t>(second - weights.begin());
  p.margin = (1 - std::max(*second, 0.0)) / sum;
  return row;
}

}  // namespace

std::span<const Field> uniform_fields() {
  using O = UniformOptions;
  using enum FieldGroup;
  // clang-format off
  static const Field kFields[] = {
    field<&O::denoising_steps>(random_canvas, "denoising_steps", "N", "most forwards of one canvas").in({1, kMaxSteps}),
    field<&O::t_max>(random_canvas, "t_max", "T", "temperature that a canvas begins with").in(kAboveZero),
    field<&O::t_min>(random_canvas, "t_min", "T", "temperature that its steps fall to").in(kAboveZero),
    field<&O::stability_threshold>(random_canvas, "stability_threshold", "N",
        "a canvas is done when its best tokens stayed for so many steps,").in({0, 1000}),
    field<&O::confidence_threshold>(random_canvas, "confidence_threshold", "NATS",
        "and their mean entropy is below this").in(kAboveZero),
  };
  // clang-format on
  return kFields;
}

double token_draw(uint64_t seed, int64_t forward, int64_t position) {
  return uniform(seed, static_cast<uint64_t>(forward), static_cast<uint64_t>(position), kPositionDraw);
}

int32_t random_token(uint64_t seed, int64_t forward, int64_t position, int64_t vocab) {
  const double share = uniform(seed, static_cast<uint64_t>(forward), static_cast<uint64_t>(position), kRandomToken);
  return static_cast<int32_t>(std::min(vocab - 1, static_cast<int64_t>(share * static_cast<double>(vocab))));
}

Status temper(std::span<const float> logits, const StepPlan& plan, const Told& told, StepResult& result) {
  const size_t rows = plan.logits.size(), vocab = rows > 0 ? logits.size() / rows : 0;
  std::vector<double> weights;
  weights.reserve(vocab);
  result.predictions.clear();
  result.drawn.clear();
  for (size_t i = 0; i < rows; ++i) {
    Row row = temper_row(logits.subspan(i * vocab, vocab), plan.temperature, plan.draws[i], told, weights);
    row.prediction.position = plan.logits[i];
    if (row.prediction.token < 0)
      return damaged("the logits of position {} are not finite; the weights or the activations are damaged",
                     plan.logits[i]);
    result.predictions.push_back(row.prediction);
    result.drawn.push_back(row.drawn);
  }
  return {};
}

}  // namespace llada::decode
