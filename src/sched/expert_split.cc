#include "sched/expert_split.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/check.h"

namespace llada {
namespace {

constexpr int32_t kAheadLayers = 3;  // that a guess reaches
constexpr double kNewest = 0.25;     // weight of the last layer's time beside those before it

// The device's time: emulated where it has a clock of its own.
double now(Device& device) {
  if (Clock* const clock = device.capabilities().clock) return clock->emulated().seconds;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

LayerRouting summed(std::span<const float> gates, int32_t experts) {
  LayerRouting routing{std::vector<int32_t>(static_cast<size_t>(experts), 0),
                       std::vector<float>(static_cast<size_t>(experts), 0)};
  for (size_t i = 0; i < gates.size(); ++i) {
    const size_t e = i % static_cast<size_t>(experts);
    routing.rows[e] += gates[i] != 0;
    if (std::isfinite(gates[i]))
      routing.score[e] += gates[i];  // damaged rows end in an error; the plan must not have them
  }
  return routing;
}

}  // namespace

ExpertSplit::ExpertSplit(ExpertSplitOptions options) : options_(std::move(options)) {
  if (options_.costs)
    runtime_.emplace(options_.layers, options_.experts * options_.costs->slices, *options_.costs, options_.moe);
}

void ExpertSplit::begin_step() {
  planned_at_s_ = 0;
  if (runtime_) runtime_->begin_step();
}

Result<const ExpertsPlan*> ExpertSplit::plan(Device& device, const Program& program, const Op& op,
                                             const StepInputs& inputs) {
  LLADA_CHECK(op.kind == OpKind::experts && op.experts == options_.experts);
  const int32_t layer = op.layer - options_.first_layer;
  LLADA_CHECK(layer >= 0 && layer < options_.layers);
  ExpertHost* const host = device.capabilities().experts;
  const std::span<const float> gates = host != nullptr ? host->peek(program, op.in[1]) : std::span<const float>();
  const int64_t rows = program.shape.count(op.rows);
  if (host == nullptr || static_cast<int64_t>(gates.size()) != rows * op.experts)
    return failed("{}: the router's decision cannot be read", device.info().name);
  if (options_.listen) {
    // A recording of routing has no place for damage. Without a listener it shows in the results of the rows that have
    // it, and costs other requests nothing.
    if (!std::ranges::all_of(gates, [](float gate) { return std::isfinite(gate); }))
      return damaged("{}: the decision of layer {}'s router is not finite; the weights or the activations are damaged",
                     device.info().name, op.layer);
    std::vector<int32_t> positions = inputs.positions;
    if (op.rows != RowSet::all) {  // the last layer computes only rows whose logits are wanted
      positions.clear();
      for (const int32_t row : inputs.wanted) positions.push_back(inputs.positions[static_cast<size_t>(row)]);
    }
    LLADA_TRY_STATUS(options_.listen({layer, positions, gates, op.experts}));
  }
  if (!runtime_) return nullptr;
  // From the plan of the layer before to this one its experts were computed, and then the ops between. The accelerator
  // has nothing else to do when a layer is planned: its routing was waited for.
  if (const double since = now(device) - planned_at_s_; planned_at_s_ > 0 && layer == plan_.layer + 1)
    clock_.between_s +=
        (clock_.between_s > 0 ? kNewest : 1) * (std::max(0.0, since - plan_.predicted_s) - clock_.between_s);
  const auto seconds = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  const double begin = seconds();
  std::vector<LayerRouting> ahead;
  if (options_.guess && runtime_->wants_guesses()) {
    ahead = options_.guess(layer, kAheadLayers, host->peek(program, op.in[0]), rows);
  }
  const double guessed = seconds();
  LayerRouting routing = summed(gates, op.experts);
  if (const int32_t slices = options_.costs->slices; slices > 1) {
    routing = sliced(routing, slices);
    for (LayerRouting& guess : ahead) guess = sliced(guess, slices);
  }
  clock_.link = host->expert_link();
  plan_ = runtime_->layer(layer, routing, ahead, clock_);
  planned_at_s_ = now(device);
  runtime_->add_seconds(guessed - begin, seconds() - guessed);
  return &plan_;
}

}  // namespace llada
