#include "engine/model_runner.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "models/model_graph.h"

namespace llada {
DType kv_type(const Model& model) {
  const auto quantized = [](const ModelFile::Entry& entry) { return traits(entry.view.type).quantized; };
  return std::ranges::any_of(model.file().tensors(), quantized) ? DType::F16 : DType::F32;
}

Executor::Build build_with(const ModelGraph& graph) {
  return [&graph](StepShape shape) -> Result<std::shared_ptr<const Program>> {
    LLADA_TRY(auto built, graph.program(shape));
    auto program = std::make_shared<Program>(std::move(built));
    LLADA_TRY_STATUS(verify(*program, graph.weights));
    return program;
  };
}

KvShape kv_shape(const Model& model, int64_t positions, bool guided) {
  const ModelGraph& graph = model.graph();
  return {.layers = graph.layers,
          .sequences = guided ? 2 : 1,
          .kv_heads = graph.kv_heads,
          .head_dim = graph.head_dim,
          .positions = positions,
          .type = kv_type(model)};
}

Result<RequestState> RequestState::create(const Model& model, Device& device, int64_t positions, bool guided,
                                          SamplingRule rule) {
  LLADA_TRY(auto kv,
            KvStore::create(kv_shape(model, positions, guided), [&](int64_t bytes) { return device.allocate(bytes); }));
  return RequestState{.device = &device, .kv = std::move(kv), .most_positions = positions, .sampling = std::move(rule)};
}

Status RequestState::make_room(int64_t keys) {
  const int64_t positions = kv.shape().positions;
  if (keys <= positions) return {};
  const int64_t doubled = std::max(keys, prompt + 2 * (positions - prompt));
  // Old and new store are there together while it grows: what is copied is never more than half of all, or the first
  // store (request_bytes).
  const int64_t wanted = doubled > most_positions / 2 ? most_positions : doubled;
  LLADA_TRY(kv, kv.grown(wanted, [&](int64_t bytes) { return device->allocate(bytes); }));
  beside_kv.reset();  // made again, as a copy
  return {};
}

namespace {

// Adds the seconds that it lives.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// The next `count` predictions of `from`.
std::vector<Prediction> take(std::span<const Prediction> from, size_t& next, size_t count) {
  const auto part = from.subspan(std::exchange(next, next + count), count);
  return {part.begin(), part.end()};
}

Status check_keys(const decode::StepPlan& plan, const KvStore& kv) {
  const int sequences = plan.cfg_scale > 0 ? 2 : 1;
  if (sequences > kv.shape().sequences) return failed("engine: a plan asks for guidance that the run did not announce");
  std::vector<bool> computed(static_cast<size_t>(plan.keys), false);
  for (const int32_t p : plan.rows) computed[static_cast<size_t>(p)] = true;
  for (int s = 0; s < sequences; ++s)
    for (int32_t p = 0; p < plan.keys; ++p)
      // A sparse plan runs beside the step's rows, so it finds none of what they compute.
      if ((!computed[static_cast<size_t>(p)] || !plan.sparse.empty()) && kv.version(s, p) == KvStore::kAbsent)
        return failed("engine: a plan reads the K/V of position {}, which no forward has computed", p);
  return {};
}

// Adds the rows and trials of `part`, the step's plan or its sparse plan, to a forward as a stream of its own. logits:
// rows of the part, ascending.
template <class Part>
void add_stream(const RequestStep& step, const Part& part, std::span<const int32_t> logits, KvStore& kv,
                int64_t forward_number, const KeyRule& keys, StepInputs& inputs) {
  const decode::StepPlan& plan = *step.plan;
  const auto index = static_cast<int32_t>(inputs.streams.size());
  inputs.streams.push_back({&kv, step.state->sampling, step.state->keep_logits, plan.block_begin});
  inputs.streams.back().sampling.forward_number = forward_number;
  const auto first_wanted = static_cast<int32_t>(inputs.wanted.size());
  const int sequences = plan.cfg_scale > 0 ? 2 : 1;
  for (int s = 0; s < sequences; ++s) {
    const auto add = [&](const auto& rows, std::span<const int32_t> wanted, bool trial) {
      auto row = static_cast<int32_t>(inputs.positions.size());
      append_span(inputs, {.stream = index, .sequence = s, .trial = trial}, s == 0 ? rows.inputs : rows.unconditional,
                  rows.rows, keys, plan.keys);
      for (const int32_t position : wanted) {
        while (inputs.positions[static_cast<size_t>(row)] != position) ++row;
        inputs.wanted.push_back(row);
      }
    };
    add(part, logits, false);
    for (const decode::Trial& trial : part.trials) add(trial, {&trial.logits, 1}, true);
  }
  // The second sequence wants the same rows as the first, in the same order.
  const int32_t predictions = (static_cast<int32_t>(inputs.wanted.size()) - first_wanted) / sequences;
  for (int32_t p = first_wanted; p < first_wanted + predictions; ++p)
    inputs.predictions.push_back({p, sequences == 2 ? p + predictions : -1, plan.cfg_scale});
}

}  // namespace

ModelRunner::ModelRunner(const Model& model, Device& device, Trace* trace, ExecutorOptions executor)
    : model_(model), executor_(device, build_with(model.graph()), std::move(executor)), trace_(trace) {}

// Starts the sparse plans over the second stores; run() of the executor finishes them.
Status ModelRunner::begin_beside(std::span<RequestStep* const> steps) {
  beside_inputs_ = {};
  for (const RequestStep* step : steps) {
    std::optional<KvStore>& copy = step->state->beside_kv;
    if (!copy) {
      const KvStore& kv = step->state->kv;
      LLADA_TRY(copy, KvStore::create(kv.shape(), [&](int64_t bytes) { return executor_.allocate(bytes); }));
      std::vector<int32_t> all(static_cast<size_t>(kv.shape().positions));
      std::iota(all.begin(), all.end(), 0);
      copy->put_back(kv.save(all));
    }
    add_stream(*step, step->plan->sparse, {}, *copy, step->denoiser->forward_number() + 1, model_.graph().keys,
               beside_inputs_);
  }
  const Stopwatch watch(device_seconds_);
  return executor_.run_beside(beside_inputs_, beside_outputs_, &beside_streams_);
}

// A sparse plan sees the store as it is now, and the step's rows see nothing of it: its K/V is kept aside until they
// are done. Whatever happens, the store is then as it was.
Status ModelRunner::run_sparse(std::span<RequestStep* const> steps) {
  std::vector<KvStore::Saved> before;
  inputs_ = {};
  for (const RequestStep* step : steps) {
    before.push_back(step->state->kv.save(step->plan->sparse.rows));
    add_stream(*step, step->plan->sparse, {}, step->state->kv, step->denoiser->forward_number() + 1,
               model_.graph().keys, inputs_);
  }
  Status status;
  {
    const Stopwatch watch(device_seconds_);
    status = executor_.run_beside(inputs_, outputs_, &streams_);
  }
  size_t next = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    RequestStep& step = *steps[i];
    KvStore& kv = step.state->kv;
    if (status) step.refreshed = kv.save(step.plan->sparse.rows);
    kv.put_back(before[i]);
    if (!status) continue;
    step.status = streams_[i];
    step.result.sparse = take(outputs_.predictions, next, step.plan->sparse.trials.size());
    step.state->sparse_logits = std::move(outputs_.logits[i]);
    step.sparse_done = step.status.has_value();
  }
  return status;
}

void ModelRunner::run(std::span<RequestStep> all) {
  const Status unchanged = model_.file().check_unchanged();  // or its weights are those of two models
  size_t rows = 0;
  std::vector<RequestStep*> steps, before_it, beside_it;
  for (RequestStep& step : all) {
    if (step.status) step.status = unchanged;
    if (step.status)
      step.status = within_memory([&]() -> Status {
        LLADA_TRY(const decode::StepPlan& plan, step.denoiser->plan());
        step.plan = &plan;
        LLADA_TRY_STATUS(step.state->make_room(plan.keys));
        return check_keys(plan, step.state->kv);
      });
    if (!step.status) continue;
    steps.push_back(&step);
    rows += step.plan->rows.size();
    // A second store stays in use when its device has failed: it holds what the step found, the first one perhaps not.
    if (!step.plan->sparse.empty() && !step.sparse_done)
      (executor_.runs_beside() || step.state->beside_kv ? beside_it : before_it).push_back(&step);
  }
  if (steps.empty()) return;
  const TraceSpan span(trace_, "decode",
                       steps.size() == 1 ? fmt::format("step {}: {} rows", steps[0]->denoiser->forward_number(), rows)
                                         : fmt::format("{} requests: {} rows", steps.size(), rows));
  const Status status = [&]() -> Status {
    if (!before_it.empty()) LLADA_TRY_STATUS(run_sparse(before_it));
    std::erase_if(steps, [](const RequestStep* step) { return !step->status; });
    if (steps.empty()) return {};
    if (!beside_it.empty()) LLADA_TRY_STATUS(begin_beside(beside_it));
    inputs_ = {};
    outputs_.logits.resize(steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      RequestStep& step = *steps[i];
      add_stream(step, *step.plan, step.plan->logits, step.state->kv, step.denoiser->forward_number(),
                 model_.graph().keys, inputs_);
      outputs_.logits[i] = std::move(step.state->logits);  // whose memory takes the new ones
    }
    const Stopwatch watch(device_seconds_);
    return executor_.run(inputs_, outputs_, &streams_);
  }();
  if (!status) {
    executor_.join_beside();
    for (RequestStep* step : steps) {
      if (steps.size() == 1)
        step->status = status;
      else
        run({step, 1});
    }
    return;
  }
  size_t next = 0, next_beside = 0, stream_beside = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    RequestStep& step = *steps[i];
    RequestState& state = *step.state;
    const decode::StepPlan& plan = *step.plan;
    step.result.predictions = take(outputs_.predictions, next, plan.logits.size());
    step.result.trials = take(outputs_.predictions, next, plan.trials.size());
    step.status = streams_[i];
    if (state.keep_logits) state.logits = std::move(outputs_.logits[i]);
    if (!plan.sparse.empty() && !step.sparse_done) {
      if (step.status) step.status = beside_streams_[stream_beside];
      step.result.sparse = take(beside_outputs_.predictions, next_beside, plan.sparse.trials.size());
      state.sparse_logits = std::move(beside_outputs_.logits[stream_beside++]);
      step.refreshed = state.beside_kv->save(plan.sparse.rows);
    }
    if (state.beside_kv) state.beside_kv->put_back(state.kv.save(plan.rows));
    state.kv.put_back(step.refreshed);
  }
}

}  // namespace llada
