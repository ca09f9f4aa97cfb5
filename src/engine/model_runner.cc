#include "engine/model_runner.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "decode/row_sets.h"
#include "engine/text_rows.h"
#include "models/model_graph.h"

namespace llada {
Executor::Build build_with(const ModelGraph& graph) {
  return [&graph](StepShape shape) -> Result<std::shared_ptr<const Program>> {
    LLADA_TRY(auto built, graph.program(shape));
    auto program = std::make_shared<Program>(std::move(built));
    LLADA_TRY_STATUS(verify(*program, graph.weights));
    return program;
  };
}

KvShape kv_shape(const ModelFile& file, const ModelGraph& graph, int64_t positions, bool guided) {
  const auto quantized = [](const ModelFile::Entry& entry) { return traits(entry.view.type).quantized; };
  return {.layers = graph.layers,
          .sequences = guided ? 2 : 1,
          .kv_heads = graph.kv_heads,
          .head_dim = graph.head_dim,
          .positions = positions,
          .type = std::ranges::any_of(file.tensors(), quantized) ? DType::F16 : DType::F32,
          .by_layer = graph.kv_by_layer};
}
KvShape kv_shape(const Model& model, int64_t positions, bool guided) {
  return kv_shape(model.file(), model.graph(), positions, guided);
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
  side_kv.reset();  // made again, as a copy
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
  for (const int32_t p : plan.places.empty() ? plan.rows : plan.places) computed[static_cast<size_t>(p)] = true;
  for (int s = 0; s < sequences; ++s)
    for (int32_t p = 0; p < plan.keys; ++p)
      // A sparse plan runs beside the step's rows, so it finds none of what they compute.
      if ((!computed[static_cast<size_t>(p)] || (!plan.sparse.empty() && p < plan.sparse.keys)) &&
          kv.version(s, p) == KvStore::kAbsent)
        return failed("engine: a plan reads the K/V of position {}, which no forward has computed", p);
  return {};
}

KeyRule rule_of(const ModelGraph& graph, const decode::StepPlan& plan) {
  if (plan.encode) return KeyRule::causal();
  KeyRule rule = graph.keys;
  rule.causal_below = plan.causal_below, rule.origin = plan.block_origin;
  return rule;
}

// Rows that choose experts together are computed together.
Status check_whole_blocks(const decode::StepPlan& plan, int64_t block) {
  if (block == 0) return {};
  if (!plan.trials.empty() || !plan.sparse.empty())
    return failed("engine: a plan has trials of rows that choose experts together with their block");
  for (size_t i = 0; i < plan.rows.size();) {
    const int64_t begin = plan.rows[i] / block * block, end = std::min<int64_t>(begin + block, plan.keys);
    for (int64_t p = begin; p < end; ++p, ++i)
      if (i == plan.rows.size() || plan.rows[i] != p)
        return failed("engine: a plan computes a part of the positions {} to {}, which choose experts together", begin,
                      end);
  }
  return {};
}

// Adds the rows and trials of `part`, the step's plan or its sparse plan, to a forward as a stream of its own. places:
// of its rows, or none. logits: rows of the part, ascending.
template <class Part>
void add_stream(const RequestStep& step, const Part& part, std::span<const int32_t> places,
                std::span<const int32_t> logits, KvStore& kv, int64_t forward_number, const KeyRule& keys,
                StepInputs& inputs) {
  const decode::StepPlan& plan = *step.plan;
  const auto index = static_cast<int32_t>(inputs.streams.size());
  inputs.streams.push_back({&kv, step.state->sampling, step.state->keep_logits, plan.block_begin});
  inputs.streams.back().sampling.forward_number = forward_number;
  if (plan.temperature > 0) inputs.streams.back().tempering = {plan.temperature, plan.draws};
  inputs.streams.back().reading = step.state->reading;
  if (plan.conditioned) inputs.streams.back().soft = &step.state->soft;
  const auto first_wanted = static_cast<int32_t>(inputs.wanted.size());
  const int sequences = plan.cfg_scale > 0 ? 2 : 1;
  for (int s = 0; s < sequences; ++s) {
    const auto add = [&](const auto& rows, std::span<const int32_t> places, std::span<const int32_t> wanted,
                         bool trial) {
      auto row = static_cast<int32_t>(inputs.positions.size());
      append_span(inputs, {.stream = index, .sequence = s, .trial = trial}, s == 0 ? rows.inputs : rows.unconditional,
                  rows.rows, keys, part.keys, places);
      for (const int32_t position : wanted) {
        while (inputs.positions[static_cast<size_t>(row)] != position) ++row;
        inputs.wanted.push_back(row);
      }
    };
    add(part, places, logits, false);
    for (const decode::Trial& trial : part.trials) add(trial, {}, {&trial.logits, 1}, true);
  }
  // The second sequence wants the same rows as the first, in the same order.
  const int32_t predictions = (static_cast<int32_t>(inputs.wanted.size()) - first_wanted) / sequences;
  for (int32_t p = first_wanted; p < first_wanted + predictions; ++p)
    inputs.predictions.push_back({p, sequences == 2 ? p + predictions : -1, plan.cfg_scale});
}

// Far below every logit, and finite, as sums over a row need it.
constexpr float kHidden = -1e30f;

// Takes rows of the vocabulary out of kept logits.
void hide_rows_without_text(const Model& model, const RequestState& state, std::vector<float>& logits) {
  if (state.every_row) return;
  const std::vector<int32_t> ids = rows_without_text(model);
  for (auto row = logits.begin(); row != logits.end(); row += model.config().vocab)
    for (const int32_t id : ids) row[id] = kHidden;
}

}  // namespace

ModelRunner::ModelRunner(const Model& model, Device& device, Trace* trace, ExecutorOptions executor)
    : model_(model), executor_(device, build_with(model.graph()), std::move(executor)), trace_(trace) {
  model_.add_runner(*this);
}
ModelRunner::~ModelRunner() {
  model_.remove_runner(*this);
  drain();  // before the model goes
}

// A copy of the request's store, which no pass is using.
Status ModelRunner::use_beside_store(RequestState& state) {
  std::shared_ptr<KvStore>& copy = state.side_kv;
  if (state.sparse && !executor_.is_ready(*state.sparse->pass))
    copy.reset();  // the pass was given up, and goes on in it
  if (copy) {
    copy->put_back(state.kv.save(std::exchange(state.outdated, {})));
    return {};
  }
  LLADA_TRY(KvStore store, KvStore::create(state.kv.shape(), [&](int64_t bytes) { return executor_.allocate(bytes); }));
  copy = std::make_shared<KvStore>(std::move(store));
  std::vector<int32_t> all(static_cast<size_t>(state.kv.shape().positions));
  std::iota(all.begin(), all.end(), 0);
  copy->put_back(state.kv.save(all));
  state.outdated.clear();
  return {};
}

// Begins the sparse passes of these steps as one. beside: over the second stores. Over the requests' own they are
// computed on return, and the stores are as they were.
Status ModelRunner::begin_sparse(std::span<RequestStep* const> steps, bool beside) {
  const auto pass = std::make_shared<SidePass>();
  std::vector<KvStore::Saved> before;
  std::vector<SparsePart> parts;
  size_t first = 0;
  for (const RequestStep* step : steps) {
    RequestState& state = *step->state;
    const decode::SparsePlan& plan = step->plan->sparse;
    if (beside) {
      LLADA_TRY_STATUS(use_beside_store(state));
      pass->stores.push_back(state.side_kv);
    } else {
      before.push_back(state.kv.save(plan.rows));
    }
    parts.push_back({.pass = pass,
                     .stream = pass->inputs.streams.size(),
                     .first = std::exchange(first, first + plan.trials.size()),
                     .forward = step->denoiser->forward_number() + 1,
                     .rows = plan.rows,
                     .trials = plan.trials.size()});
    add_stream(*step, plan, {}, {}, beside ? *state.side_kv : state.kv, parts.back().forward,
               rule_of(model_.graph(), *step->plan), pass->inputs);
  }
  const Stopwatch watch(device_seconds_);
  const Status status = executor_.begin_side_pass(pass);
  for (size_t i = 0; i < before.size(); ++i) {
    KvStore& kv = steps[i]->state->kv;
    if (status) parts[i].refreshed = kv.save(parts[i].rows);
    kv.put_back(before[i]);
  }
  for (size_t i = 0; status && i < steps.size(); ++i) steps[i]->state->sparse = std::move(parts[i]);
  return status;
}

// The end of a step whose rows are computed: the pass's results where it lands, and the second store brought up to
// date.
void ModelRunner::land_sparse(RequestStep& step) {
  RequestState& state = *step.state;
  const decode::Landing& landing = step.plan->landing;
  using enum decode::Landing::When;
  const auto changed = [&](std::span<const int32_t> rows) { state.outdated = decode::merged(state.outdated, rows); };
  if (state.side_kv) changed(step.plan->rows);
  if (state.sparse &&
      (landing.when == waited || (landing.when == if_there && executor_.is_ready(*state.sparse->pass)))) {
    const SparsePart part = *std::exchange(state.sparse, {});
    SidePass& pass = *part.pass;
    const Status landed = [&] {
      const Stopwatch watch(device_seconds_);
      return executor_.join(pass);
    }();
    if (step.status) step.status = landed ? pass.streams[part.stream] : landed;
    if (!step.status) return;
    size_t next = part.first;
    step.result.sparse = take(pass.outputs.predictions, next, part.trials);
    step.result.landed = part.forward;
    if (state.keep_logits) {
      state.sparse_logits = std::move(pass.outputs.logits[part.stream]);
      hide_rows_without_text(model_, state, state.sparse_logits);
    }
    if (state.reading.classes != nullptr) step.result.sparse_scores = std::move(pass.outputs.scores[part.stream]);
    if (part.refreshed.positions.empty()) {
      if (!part.rows.empty()) state.kv.put_back(pass.inputs.streams[part.stream].kv->save(landing.stored));
    } else {
      std::vector<int32_t> others;
      std::ranges::set_difference(part.rows, landing.stored, std::back_inserter(others));
      const KvStore::Saved kept = state.kv.save(others);
      state.kv.put_back(part.refreshed);
      state.kv.put_back(kept);
    }
    if (state.side_kv) changed(part.rows);
  }
  if (state.side_kv && !state.sparse) state.side_kv->put_back(state.kv.save(std::exchange(state.outdated, {})));
}

void ModelRunner::run(std::span<RequestStep> all) {
  const Status unchanged = model_.file().check_unchanged();  // or its weights are those of two models
  std::vector<RequestStep*> of_pass[2], waiting;
  for (RequestStep& step : all) {
    if (step.status) step.status = unchanged;
    if (step.status)
      step.status = within_memory([&]() -> Status {
        LLADA_TRY(const decode::StepPlan& plan, step.denoiser->plan());
        step.plan = &plan;
        LLADA_TRY_STATUS(step.state->make_room(plan.keys));
        LLADA_TRY_STATUS(check_whole_blocks(plan, model_.config().expert_block));
        return check_keys(plan, step.state->kv);
      });
    if (step.status)
      (decode::forwards_of(*step.plan) == 0 ? waiting : of_pass[step.plan->encode ? 1 : 0]).push_back(&step);
  }
  run_pass(of_pass[1], Pass::encode);
  run_pass(of_pass[0], Pass::denoise);
  for (RequestStep* step : waiting) land_sparse(*step);  // when the others have what they need of the device
}

// The steps have plans, all of that pass. A device that has broken fails every step alike, so all are told at once.
// What may be a matter of size (no memory, a program that the device refuses) is tried again with half of them, and the
// rest goes by the size that went well. One that fails alone is told so; where the others fail together once more, they
// are, too. So n requests that all fail cost about log2(n) forwards, which found no memory, and not n.
void ModelRunner::run_pass(std::span<RequestStep* const> left, Pass pass) {
  bool one_failed = false;
  for (size_t size = left.size(); !left.empty();) {
    auto steps = left.first(std::min(size, left.size()));
    const Status status = forward(steps, pass);
    device_broken_ = !status && status.error().kind == ErrorKind::failed;
    if (!status) {
      if (device_broken_ || one_failed) {
        steps = left;
      } else if (steps.size() > 1) {
        size = (steps.size() + 1) / 2;
        continue;
      }
      for (RequestStep* step : steps) step->status = status;
      one_failed = true, size = left.size();
    }
    left = left.subspan(steps.size());
  }
}

// One forward; an error is that of all its steps.
Status ModelRunner::forward(std::span<RequestStep* const> steps, Pass pass) {
  size_t rows = 0;
  std::vector<RequestStep*> before_it, beside_it;
  for (RequestStep* const step : steps) {
    rows += step->plan->rows.size();
    // A second store stays in use when its device has failed: it holds what the step found, the first one perhaps not.
    const std::optional<SparsePart>& begun = step->state->sparse;
    if (!step->plan->sparse.empty() && !(begun && begun->forward == step->denoiser->forward_number() + 1))
      (executor_.overlaps_side_passes() || step->state->side_kv ? beside_it : before_it).push_back(step);
  }
  const TraceSpan span(trace_, "decode",
                       steps.size() == 1 ? fmt::format("step {}: {} rows", steps[0]->denoiser->forward_number(), rows)
                                         : fmt::format("{} requests: {} rows", steps.size(), rows));
  if (!before_it.empty()) LLADA_TRY_STATUS(begin_sparse(before_it, false));
  if (!beside_it.empty()) LLADA_TRY_STATUS(begin_sparse(beside_it, true));
  inputs_ = {};
  inputs_.pass = pass;
  outputs_.logits.resize(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    RequestStep& step = *steps[i];
    add_stream(step, *step.plan, step.plan->places, step.plan->logits, step.state->kv, step.denoiser->forward_number(),
               rule_of(model_.graph(), *step.plan), inputs_);
    outputs_.logits[i] = std::move(step.state->logits);  // whose memory takes the new ones
  }
  LLADA_TRY_STATUS([&] {
    const Stopwatch watch(device_seconds_);
    return executor_.run(inputs_, outputs_, &streams_);
  }());
  size_t next = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    RequestStep& step = *steps[i];
    const decode::StepPlan& plan = *step.plan;
    step.result.predictions = take(outputs_.predictions, next, plan.logits.size());
    step.result.trials = take(outputs_.predictions, next, plan.trials.size());
    step.status = streams_[i];
    if (step.state->keep_logits) {
      step.state->logits = std::move(outputs_.logits[i]);
      hide_rows_without_text(model_, *step.state, step.state->logits);
    }
    if (step.state->reading.classes != nullptr) {
      std::vector<RowScores>& scores = outputs_.scores[i];
      const auto trials = scores.begin() + std::ssize(plan.logits);
      step.result.trial_scores.assign(std::move_iterator(trials), std::move_iterator(scores.end()));
      scores.erase(trials, scores.end());
      step.result.scores = std::move(scores);
    }
    if (plan.temperature > 0) {
      Tempered& tempered = outputs_.tempered[i];
      step.result.drawn = std::move(tempered.drawn);
      step.state->soft = std::move(tempered.soft);
    }
    land_sparse(step);
  }
  return {};
}

}  // namespace llada
