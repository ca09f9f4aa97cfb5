#include "engine/model_runner.h"

#include <algorithm>
#include <chrono>

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
                                      .type = kv_type(model)}));
  std::unique_ptr<ModelRunner> runner(new ModelRunner(model, device, std::move(kv), trace, std::move(executor)));
  runner->inputs_.sampling = {.temperature = rule.temperature,
                              .seed = rule.seed,
                              .forward_number = 0,
                              .never_sampled = std::move(rule.never_sampled),
                              .out_of_softmax = std::move(rule.out_of_softmax)};
  return runner;
}

Status ModelRunner::bind(const decode::StepPlan& plan, int64_t forward_number) {
  const auto rows = static_cast<int32_t>(plan.rows.size());
  const int sequences = plan.cfg_scale > 0 ? 2 : 1;
  if (sequences > kv_.shape().sequences)
    return failed("engine: a plan asks for guidance that the run did not announce");
  if (sequences == 2 && plan.unconditional.size() != plan.rows.size())
    return failed("engine: a guided plan lacks the tokens of the unconditional stream");
  inputs_.tokens.assign(plan.inputs.begin(), plan.inputs.end());
  inputs_.positions.assign(plan.rows.begin(), plan.rows.end());
  inputs_.spans = {{0, rows, 0, plan.keys}};
  inputs_.wanted.clear();
  for (size_t r = 0, next = 0; r < plan.rows.size() && next < plan.logits.size(); ++r)
    if (plan.rows[r] == plan.logits[next]) inputs_.wanted.push_back(static_cast<int32_t>(r)), ++next;
  if (inputs_.wanted.size() != plan.logits.size())
    return failed("engine: a plan wants logits of a row that it does not compute");
  inputs_.guidance = plan.cfg_scale;
  inputs_.sampling.forward_number = forward_number;

  std::vector<bool> computed(static_cast<size_t>(plan.keys), false);
  for (const int32_t p : plan.rows)
    if (p < plan.keys) computed[static_cast<size_t>(p)] = true;
  for (int s = 0; s < sequences; ++s)
    for (int32_t p = 0; p < plan.keys; ++p)
      if (!computed[static_cast<size_t>(p)] && kv_.version(s, p) == KvStore::kAbsent)
        return failed("engine: a plan reads the K/V of position {}, which no forward has computed", p);

  if (sequences == 2) {
    const size_t wanted = inputs_.wanted.size();
    for (int32_t r = 0; r < rows; ++r) {
      const auto i = static_cast<size_t>(r);
      inputs_.tokens.push_back(plan.unconditional[i]);
      inputs_.positions.push_back(plan.rows[i]);
    }
    for (size_t i = 0; i < wanted; ++i) inputs_.wanted.push_back(inputs_.wanted[i] + rows);
    inputs_.spans.push_back({rows, rows, 1, plan.keys});
  }
  return {};
}

Result<std::vector<decode::Prediction>> ModelRunner::run(const decode::StepPlan& plan,
                                                         int64_t forward_number) {
  const TraceSpan span(trace_, "decode", fmt::format("step {}: {} rows", forward_number, plan.rows.size()));
  LLADA_TRY_STATUS(bind(plan, forward_number));
  const auto begin = std::chrono::steady_clock::now();
  LLADA_TRY_STATUS(executor_.run(inputs_, kv_, outputs_));
  device_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::vector<decode::Prediction> predictions;
  predictions.reserve(plan.logits.size());
  for (size_t i = 0; i < plan.logits.size(); ++i) {
    const RowPrediction& p = outputs_.predictions[i];
    predictions.push_back({.position = plan.logits[i],
                           .token = p.token,
                           .logit = p.logit,
                           .probability = p.probability,
                           .entropy = p.entropy,
                           .margin = p.margin,
                           .runner_up = p.runner_up});
  }
  return predictions;
}

}  // namespace llada
