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
                                          decode::HeadRule rule) {
  LLADA_TRY(auto kv,
            KvStore::create(kv_shape(model, positions, guided), [&](int64_t bytes) { return device.allocate(bytes); }));
  return RequestState{.kv = std::move(kv),
                      .sampling = {.temperature = rule.temperature,
                                   .seed = rule.seed,
                                   .forward_number = 0,
                                   .one_draw = rule.one_draw,
                                   .never_sampled = std::move(rule.never_sampled),
                                   .out_of_softmax = std::move(rule.out_of_softmax)}};
}

Status RequestState::grow(Device& device, int64_t positions) {
  LLADA_TRY(kv, kv.grown(positions, [&](int64_t bytes) { return device.allocate(bytes); }));
  beside_kv.reset();  // made again, as a copy
  return {};
}

// What one forward computes of a plan.
struct ModelRunner::Part {
  const RequestStep& step;
  std::span<const int32_t> rows, inputs, unconditional, logits;
  std::span<const decode::Trial> trials;
  KvStore* kv;
  int64_t forward_number;
};

// A request's step that is under way.
struct ModelRunner::Active {
  RequestStep step;
  decode::StepResult result = {};
  Status status = {};  // of this request alone
  bool sparse_done = false;
  KvStore::Saved refreshed = {};  // the sparse plan's K/V, which the step's own rows must not see

  bool sparse() const { return !step.plan->sparse.empty(); }
  // A sparse plan works on the second store where there is one.
  Part part(bool of_sparse_plan) const {
    const decode::StepPlan& p = *step.plan;
    if (of_sparse_plan)
      return {step,
              p.sparse.rows,
              p.sparse.inputs,
              p.sparse.unconditional,
              {},
              p.sparse.trials,
              step.state->beside_kv ? &*step.state->beside_kv : &step.state->kv,
              step.forward_number + 1};
    return {step, p.rows, p.inputs, p.unconditional, p.logits, p.trials, &step.state->kv, step.forward_number};
  }
};

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

}  // namespace

ModelRunner::ModelRunner(const Model& model, Device& device, Trace* trace, ExecutorOptions executor)
    : model_(model), executor_(device, build_with(model.graph()), std::move(executor)), trace_(trace) {}

Status ModelRunner::check_keys(const RequestStep& step) const {
  const decode::StepPlan& plan = *step.plan;
  const KvStore& kv = step.state->kv;
  const int sequences = plan.cfg_scale > 0 ? 2 : 1;
  if (sequences > kv.shape().sequences) return failed("engine: a plan asks for guidance that the run did not announce");
  if (sequences == 2 && plan.unconditional.size() != plan.rows.size())
    return failed("engine: a guided plan lacks the tokens of the unconditional stream");
  std::vector<bool> computed(static_cast<size_t>(plan.keys), false);
  for (const int32_t p : plan.rows)
    if (p < plan.keys) computed[static_cast<size_t>(p)] = true;
  for (int s = 0; s < sequences; ++s)
    for (int32_t p = 0; p < plan.keys; ++p)
      // A sparse plan runs beside the step's rows, so it finds none of what they compute.
      if ((!computed[static_cast<size_t>(p)] || !plan.sparse.empty()) && kv.version(s, p) == KvStore::kAbsent)
        return failed("engine: a plan reads the K/V of position {}, which no forward has computed", p);
  return {};
}

// Adds the part to the step as a stream of its own.
Status ModelRunner::bind(const Part& part, StepInputs& inputs) const {
  const decode::StepPlan& plan = *part.step.plan;
  const RequestState& state = *part.step.state;
  const auto index = static_cast<int32_t>(inputs.streams.size());
  Stream& stream = inputs.streams.emplace_back();
  stream.kv = part.kv;
  stream.sampling = state.sampling;
  stream.sampling.forward_number = part.forward_number;
  stream.keep_logits = state.keep_logits;
  stream.block = plan.block_begin;
  const auto first_wanted = static_cast<int32_t>(inputs.wanted.size());
  // Logits rows (ascending) of one group of rows, which becomes one span.
  const auto add = [&](std::span<const int32_t> rows, std::span<const int32_t> tokens, std::span<const int32_t> logits,
                       int sequence, bool trial) -> Status {
    const auto begin = static_cast<int32_t>(inputs.positions.size());
    if (tokens.size() != rows.size())
      return failed("engine: a plan has {} tokens for {} rows", tokens.size(), rows.size());
    append_span(inputs, {.stream = index, .sequence = sequence, .trial = trial}, tokens, rows, model_.graph().keys,
                plan.keys);
    size_t next = 0;
    for (size_t r = 0; r < rows.size() && next < logits.size(); ++r)
      if (rows[r] == logits[next]) inputs.wanted.push_back(begin + static_cast<int32_t>(r)), ++next;
    if (next != logits.size()) return failed("engine: a plan wants logits of a row that it does not compute");
    return {};
  };
  const int sequences = plan.cfg_scale > 0 ? 2 : 1;
  for (int s = 0; s < sequences; ++s) {
    LLADA_TRY_STATUS(add(part.rows, s == 0 ? part.inputs : part.unconditional, part.logits, s, false));
    for (const decode::Trial& trial : part.trials)
      LLADA_TRY_STATUS(add(trial.rows, s == 0 ? trial.inputs : trial.unconditional, {&trial.logits, 1}, s, true));
  }
  // The second sequence wants the same rows as the first, in the same order.
  const int32_t predictions = (static_cast<int32_t>(inputs.wanted.size()) - first_wanted) / sequences;
  for (int32_t p = first_wanted; p < first_wanted + predictions; ++p)
    inputs.predictions.push_back({p, sequences == 2 ? p + predictions : -1, plan.cfg_scale});
  return {};
}

Status ModelRunner::bind_all(std::span<Active* const> steps, bool sparse, StepInputs& inputs) {
  inputs = {};
  for (const Active* a : steps)
    if (!sparse || a->sparse()) LLADA_TRY_STATUS(bind(a->part(sparse), inputs));
  return {};
}

// Starts the sparse plans over the second stores; run() of the executor finishes them.
Status ModelRunner::begin_beside(std::span<Active* const> steps) {
  for (Active* a : steps) {
    if (!a->sparse() || a->step.state->beside_kv) continue;
    const KvStore& kv = a->step.state->kv;
    LLADA_TRY(a->step.state->beside_kv,
              KvStore::create(kv.shape(), [&](int64_t bytes) { return executor_.allocate(bytes); }));
    std::vector<int32_t> all(static_cast<size_t>(kv.shape().positions));
    std::iota(all.begin(), all.end(), 0);
    a->step.state->beside_kv->put_back(kv.save(all));
  }
  LLADA_TRY_STATUS(bind_all(steps, true, beside_inputs_));
  const Stopwatch watch(device_seconds_);
  return executor_.run_beside(beside_inputs_, beside_outputs_, &beside_streams_);
}

// A sparse plan sees the store as it is now, and the step's rows see nothing of it: its K/V is kept aside until they
// are done. Whatever happens, the store is then as it was.
Status ModelRunner::run_sparse(std::span<Active* const> steps) {
  std::vector<KvStore::Saved> before;
  for (const Active* a : steps) before.push_back(a->step.state->kv.save(a->step.plan->sparse.rows));
  Status status = bind_all(steps, true, inputs_);
  if (status) {
    const Stopwatch watch(device_seconds_);
    status = executor_.run_beside(inputs_, outputs_, &streams_);
  }
  size_t next = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    Active& a = *steps[i];
    KvStore& kv = a.step.state->kv;
    if (status) a.refreshed = kv.save(a.step.plan->sparse.rows);
    kv.put_back(before[i]);
    if (!status) continue;
    a.status = streams_[i];
    a.result.sparse = take(outputs_.predictions, next, a.step.plan->sparse.trials.size());
    a.step.state->sparse_logits = std::move(outputs_.logits[i]);
    a.sparse_done = a.status.has_value();
  }
  return status;
}

// One forward of those who have no error of their own yet. Where this succeeds each has its result, or its own error.
Status ModelRunner::run_together(std::span<Active* const> all) {
  // A second store stays in use when its device has failed: it holds what the step found, the first one perhaps not.
  std::vector<Active*> before_it, beside_it;
  for (Active* a : all)
    if (a->sparse() && !a->sparse_done)
      (executor_.runs_beside() || a->step.state->beside_kv ? beside_it : before_it).push_back(a);
  if (!before_it.empty()) LLADA_TRY_STATUS(run_sparse(before_it));
  std::vector<Active*> steps;
  std::ranges::copy_if(all, std::back_inserter(steps), [](const Active* a) { return a->status.has_value(); });
  if (steps.empty()) return {};
  if (!beside_it.empty()) LLADA_TRY_STATUS(begin_beside(beside_it));
  LLADA_TRY_STATUS(bind_all(steps, false, inputs_));
  // The memory of each request's last logits takes its new ones.
  outputs_.logits.resize(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) outputs_.logits[i] = std::move(steps[i]->step.state->logits);
  {
    const Stopwatch watch(device_seconds_);
    LLADA_TRY_STATUS(executor_.run(inputs_, outputs_, &streams_));
  }
  size_t next = 0, next_beside = 0, stream_beside = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    Active& a = *steps[i];
    const decode::StepPlan& plan = *a.step.plan;
    RequestState& state = *a.step.state;
    a.result.predictions = take(outputs_.predictions, next, plan.logits.size());
    a.result.trials = take(outputs_.predictions, next, plan.trials.size());
    a.status = streams_[i];
    if (state.keep_logits) state.logits = std::move(outputs_.logits[i]);
    if (a.sparse() && !a.sparse_done) {
      if (a.status) a.status = beside_streams_[stream_beside];
      a.result.sparse = take(beside_outputs_.predictions, next_beside, plan.sparse.trials.size());
      state.sparse_logits = std::move(beside_outputs_.logits[stream_beside++]);
      a.refreshed = state.beside_kv->save(plan.sparse.rows);
    }
    if (state.beside_kv) state.beside_kv->put_back(state.kv.save(plan.rows));
    state.kv.put_back(a.refreshed);
  }
  return {};
}

std::vector<Result<decode::StepResult>> ModelRunner::run(std::span<const RequestStep> steps) {
  size_t rows = 0;
  for (const RequestStep& step : steps) rows += step.plan->rows.size();
  const TraceSpan span(trace_, "decode",
                       steps.size() == 1 ? fmt::format("step {}: {} rows", steps[0].forward_number, rows)
                                         : fmt::format("{} requests: {} rows", steps.size(), rows));
  std::vector<Active> active;
  for (const RequestStep& step : steps) active.push_back({.step = step});
  std::vector<Active*> sound;
  const Status unchanged = model_.file().check_unchanged();  // or its weights are those of two models
  for (Active& a : active) {
    a.status = unchanged ? check_keys(a.step) : unchanged;
    if (a.status) sound.push_back(&a);
  }
  const auto run = [&](std::span<Active* const> who) {
    Status status = run_together(who);
    if (!status) executor_.join_beside();
    return status;
  };
  const bool together = sound.size() > 1 && run(sound);
  for (Active* const a : sound) {
    if (together || !a->status) continue;
    if (const Status alone = run({&a, 1}); !alone) a->status = alone;
  }
  std::vector<Result<decode::StepResult>> results;
  for (Active& a : active) {
    if (a.status) {
      results.emplace_back(std::move(a.result));
    } else {
      results.emplace_back(std::unexpected(a.status.error()));
    }
  }
  return results;
}

Result<std::unique_ptr<SingleRunner>> SingleRunner::create(const Model& model, Device& device, int64_t positions,
                                                           bool guided, decode::HeadRule rule, Trace* trace,
                                                           ExecutorOptions executor) {
  LLADA_TRY(auto state, RequestState::create(model, device, positions, guided, std::move(rule)));
  return std::unique_ptr<SingleRunner>(new SingleRunner(model, device, std::move(state), trace, std::move(executor)));
}

Result<decode::StepResult> SingleRunner::run(const decode::StepPlan& plan, int64_t forward_number) {
  const RequestStep step{&plan, &state_, forward_number};
  return std::move(runner_.run({&step, 1})[0]);
}

}  // namespace llada
