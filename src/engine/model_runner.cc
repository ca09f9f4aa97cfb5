#include "engine/model_runner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "tensor/half.h"

namespace llada {
DType kv_type(const Model& model) {
  const auto quantized = [](const ModelFile::Entry& entry) { return traits(entry.view.type).quantized; };
  return std::ranges::any_of(model.file().tensors(), quantized) ? DType::F16 : DType::F32;
}

Executor::Build build_with(const ModelGraph& graph) {
  return [&graph](StepShape shape) -> Result<std::shared_ptr<const Program>> {
    auto program = std::make_shared<Program>(graph.forward(shape));
    LLADA_TRY_STATUS(verify(*program, graph.weights));
    return program;
  };
}

ModelRunner::ModelRunner(const Model& model, Device& device, KvStore kv, Trace* trace, ExecutorOptions executor)
    : kv_(std::move(kv)), executor_(device, build_with(model.graph()), std::move(executor)), trace_(trace) {}

Result<std::unique_ptr<ModelRunner>> ModelRunner::create(const Model& model, Device& device,
                                                         int64_t positions, bool guided,
                                                         decode::HeadRule rule, Trace* trace,
                                                         ExecutorOptions executor) {
  const ModelGraph& graph = model.graph();
  LLADA_TRY(auto kv, KvStore::create({.layers = graph.layers,
                                      .sequences = guided ? 2 : 1,
                                      .kv_heads = graph.kv_heads,
                                      .head_dim = graph.head_dim,
                                      .positions = positions,
                                      .type = kv_type(model)},
                                     [&](int64_t bytes) { return device.allocate(bytes); }));
  std::unique_ptr<ModelRunner> runner(new ModelRunner(model, device, std::move(kv), trace, std::move(executor)));
  runner->inputs_.sampling = {.temperature = rule.temperature,
                              .seed = rule.seed,
                              .forward_number = 0,
                              .never_sampled = std::move(rule.never_sampled),
                              .out_of_softmax = std::move(rule.out_of_softmax)};
  return runner;
}

Status ModelRunner::check_keys(const decode::StepPlan& plan) const {
  const int sequences = plan.cfg_scale > 0 ? 2 : 1;
  if (sequences > kv_.shape().sequences)
    return failed("engine: a plan asks for guidance that the run did not announce");
  if (sequences == 2 && plan.unconditional.size() != plan.rows.size())
    return failed("engine: a guided plan lacks the tokens of the unconditional stream");
  std::vector<bool> computed(static_cast<size_t>(plan.keys), false);
  for (const int32_t p : plan.rows)
    if (p < plan.keys) computed[static_cast<size_t>(p)] = true;
  for (int s = 0; s < sequences; ++s)
    for (int32_t p = 0; p < plan.keys; ++p)
      // A sparse plan runs beside the step's rows, so it finds none of what they compute.
      if ((!computed[static_cast<size_t>(p)] || !plan.sparse.empty()) && kv_.version(s, p) == KvStore::kAbsent)
        return failed("engine: a plan reads the K/V of position {}, which no forward has computed", p);
  return {};
}

Status ModelRunner::bind(const Part& part, const decode::StepPlan& plan, int64_t forward_number,
                         StepInputs& inputs) const {
  inputs.tokens.clear();
  inputs.positions.clear();
  inputs.spans.clear();
  inputs.wanted.clear();
  inputs.guidance = plan.cfg_scale;
  inputs.sampling.forward_number = forward_number;
  // Logits rows (ascending) of one group of rows, which becomes one span.
  const auto add = [&](std::span<const int32_t> rows, std::span<const int32_t> tokens,
                       std::span<const int32_t> logits, int sequence, bool trial) -> Status {
    const auto begin = static_cast<int32_t>(inputs.positions.size());
    if (tokens.size() != rows.size()) return failed("engine: a plan has {} tokens for {} rows", tokens.size(),
                                                    rows.size());
    inputs.positions.insert(inputs.positions.end(), rows.begin(), rows.end());
    inputs.tokens.insert(inputs.tokens.end(), tokens.begin(), tokens.end());
    inputs.spans.push_back({begin, static_cast<int32_t>(rows.size()), sequence, plan.keys, trial});
    size_t next = 0;
    for (size_t r = 0; r < rows.size() && next < logits.size(); ++r)
      if (rows[r] == logits[next]) inputs.wanted.push_back(begin + static_cast<int32_t>(r)), ++next;
    if (next != logits.size()) return failed("engine: a plan wants logits of a row that it does not compute");
    return {};
  };
  for (int s = 0; s < (plan.cfg_scale > 0 ? 2 : 1); ++s) {
    LLADA_TRY_STATUS(add(part.rows, s == 0 ? part.inputs : part.unconditional, part.logits, s, false));
    for (const decode::Trial& trial : part.trials)
      LLADA_TRY_STATUS(
          add(trial.rows, s == 0 ? trial.inputs : trial.unconditional, {&trial.logits, 1}, s, true));
  }
  return {};
}

Status ModelRunner::forward(const Part& part, const decode::StepPlan& plan, int64_t forward_number,
                            std::vector<decode::Prediction>& predictions,
                            std::vector<decode::Prediction>& trials, bool beside) {
  LLADA_TRY_STATUS(bind(part, plan, forward_number, inputs_));
  const auto begin = std::chrono::steady_clock::now();
  LLADA_TRY_STATUS(beside ? executor_.run_beside(inputs_, kv_, outputs_) : executor_.run(inputs_, kv_, outputs_));
  device_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  collect(part, outputs_, predictions, trials);
  return {};
}

void ModelRunner::collect(const Part& part, const StepOutputs& outputs, std::vector<decode::Prediction>& predictions,
                          std::vector<decode::Prediction>& trials) {
  const size_t wanted = part.logits.size() + part.trials.size();
  for (size_t i = 0; i < wanted; ++i) {
    const bool trial = i >= part.logits.size();
    const RowPrediction& p = outputs.predictions[i];
    (trial ? trials : predictions)
        .push_back({.position = trial ? part.trials[i - part.logits.size()].logits : part.logits[i],
                    .token = p.token,
                    .logit = p.logit,
                    .probability = p.probability,
                    .entropy = p.entropy,
                    .margin = p.margin,
                    .runner_up = p.runner_up});
  }
}

// Starts the sparse pass over the second store; run() of the executor finishes it.
Status ModelRunner::begin_beside(const Part& part, const decode::StepPlan& plan, int64_t forward_number) {
  if (!beside_kv_) {
    LLADA_TRY(beside_kv_, KvStore::create(kv_.shape()));
    std::vector<int32_t> all(static_cast<size_t>(kv_.shape().positions));
    std::iota(all.begin(), all.end(), 0);
    beside_kv_->put_back(kv_.save(all));
  }
  beside_inputs_.sampling = inputs_.sampling;
  LLADA_TRY_STATUS(bind(part, plan, forward_number, beside_inputs_));
  return executor_.run_beside(beside_inputs_, *beside_kv_, beside_outputs_);
}

// What the stored values of the probes say now, as floats: [layer][probe][kv head x head_dim] of the first
// sequence.
std::vector<float> ModelRunner::probe_values(std::span<const int32_t> probes) {
  const KvShape& shape = kv_.shape();
  std::vector<float> values;
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (const int32_t p : probes) {
      for (int head = 0; head < shape.kv_heads; ++head) {
        const std::byte* from = kv_.values(layer, 0, head);
        for (int64_t i = int64_t{p} * shape.head_dim; i < (int64_t{p} + 1) * shape.head_dim; ++i) {
          values.push_back(shape.type == DType::F16 ? f16_to_float(reinterpret_cast<const uint16_t*>(from)[i])
                                                    : reinterpret_cast<const float*>(from)[i]);
        }
      }
    }
  }
  return values;
}

double ModelRunner::drift(std::span<const float> before, std::span<const float> after) const {
  const auto n = static_cast<size_t>(kv_.shape().kv_heads * kv_.shape().head_dim);
  double least = 1;
  for (size_t at = 0; at < before.size(); at += n) {
    double dot = 0, x = 0, y = 0;
    for (size_t i = at; i < at + n; ++i) {
      dot += static_cast<double>(before[i]) * after[i];
      x += static_cast<double>(before[i]) * before[i];
      y += static_cast<double>(after[i]) * after[i];
    }
    if (x > 0 && y > 0) least = std::min(least, dot / std::sqrt(x * y));
  }
  return 1 - least;
}

Result<decode::StepResult> ModelRunner::run(const decode::StepPlan& plan, int64_t forward_number) {
  const TraceSpan span(trace_, "decode", fmt::format("step {}: {} rows", forward_number, plan.rows.size()));
  LLADA_TRY_STATUS(check_keys(plan));
  decode::StepResult result;
  std::vector<decode::Prediction> none;
  // The sparse plan sees the store as it is now, and the step's rows see nothing of the sparse plan: its K/V is
  // kept aside until they are done.
  KvStore::Saved refreshed;
  const Part sparse{plan.sparse.rows, plan.sparse.inputs, plan.sparse.unconditional, {}, plan.sparse.trials};
  const bool beside = !plan.sparse.empty() && executor_.runs_beside();
  if (beside) {
    LLADA_TRY_STATUS(begin_beside(sparse, plan, forward_number + 1));
  } else if (!plan.sparse.empty()) {
    const KvStore::Saved before = kv_.save(plan.sparse.rows);
    LLADA_TRY_STATUS(forward(sparse, plan, forward_number + 1, none, result.sparse, true));
    refreshed = kv_.save(plan.sparse.rows);
    kv_.put_back(before);
  }
  const std::vector<float> before = probe_values(plan.probes);
  const Part dense{plan.rows, plan.inputs, plan.unconditional, plan.logits, plan.trials};
  LLADA_TRY_STATUS(forward(dense, plan, forward_number, result.predictions, result.trials, false));
  if (!plan.probes.empty()) result.drift = drift(before, probe_values(plan.probes));
  if (beside) {
    collect(sparse, beside_outputs_, none, result.sparse);
    refreshed = beside_kv_->save(plan.sparse.rows);
  }
  if (beside_kv_) beside_kv_->put_back(kv_.save(plan.rows));
  kv_.put_back(refreshed);
  return result;
}

}  // namespace llada
