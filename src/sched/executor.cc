#include "sched/executor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sched/check_step.h"

namespace llada {
namespace {

// A device without a window runs a program in one piece per unit.
std::vector<MemoryRuntime::Stretch> cut_by_unit(const Device& device, const Program& program) {
  std::vector<MemoryRuntime::Stretch> out;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Unit unit = device.place(program.ops[i]);
    if (out.empty() || out.back().unit != unit) out.push_back({i, i, unit, {}, {}});
    out.back().last = i + 1;
  }
  return out;
}

// Every experts op in a stretch of its own, so that its routing can be looked at before.
std::vector<MemoryRuntime::Stretch> cut_at_experts(const Program& program, std::vector<MemoryRuntime::Stretch> from) {
  std::vector<MemoryRuntime::Stretch> out;
  for (MemoryRuntime::Stretch& whole : from) {
    MemoryRuntime::Stretch rest = whole;
    rest.releases.clear();
    for (size_t i = whole.first; i < whole.last; ++i) {
      if (program.ops[i].kind != OpKind::experts) continue;
      for (const size_t end : {i, i + 1}) {
        if (end == rest.first) continue;
        rest.last = end;
        out.push_back(rest);
        rest.first = end;
        rest.slabs.clear();
      }
    }
    rest.last = whole.last;
    if (rest.first < rest.last) out.push_back(std::move(rest));
    out.back().releases = std::move(whole.releases);
  }
  return out;
}

StepShape shape_of(const StepInputs& inputs) {
  return {static_cast<int32_t>(inputs.tokens.size()), static_cast<int32_t>(inputs.wanted.size()),
          static_cast<int32_t>(inputs.predictions.size()), inputs.pass};
}

// What a device fills; memory of the step before stays for it.
void empty(const StepInputs& inputs, StepOutputs& outputs) {
  outputs.predictions.clear();
  outputs.logits.resize(inputs.streams.size());
  for (auto& logits : outputs.logits) logits.clear();
}

}  // namespace

Result<std::shared_ptr<const Program>> Executor::build(StepShape shape) const {
  LLADA_TRY(auto built, build_(shape));
  LLADA_TRY_STATUS(device_->supports(*built));
  return built;
}

Status Executor::prepare() {
  if (prepared_) return {};
  if (can_.window != nullptr && can_.window->window().weight_bytes != kUnlimitedWindow) {
    // One wanted row, so that every weight is there.
    LLADA_TRY(const auto built, build(plain_shape(1, 1)));
    LLADA_TRY(memory_, MemoryRuntime::create(*device_, *built, options_.memory));
  }
  if (options_.experts && !split_) begin_experts();
  prepared_ = true;
  return {};
}

void Executor::begin_experts() {
  if (can_.experts != nullptr) expert_run_ = can_.experts->begin_expert_run();
  split_.emplace(*options_.experts);
}

Result<std::shared_ptr<const Executor::Prepared>> Executor::program(StepShape shape) {
  if (auto kept = recent_.find(shape)) return kept;
  LLADA_TRY(auto built, build(shape));
  auto stretches = memory_ ? memory_->cut(*device_, *built) : cut_by_unit(*device_, *built);
  if (split_) stretches = cut_at_experts(*built, std::move(stretches));
  const KvGeometry kv = kv_geometry(*built);
  return recent_.keep(shape, {std::move(built), std::move(stretches), kv});
}

Status Executor::run_once(const Forward& forward) {
  Status status = within_memory([&] { return run_stretches(forward); });
  // What a sound device was given may still write results; it shall not when somebody else uses their memory.
  const Ticket last = std::exchange(last_, 0);
  if (!status && status.error().kind != ErrorKind::failed) static_cast<void>(device_->wait(last));
  return status;
}

Status Executor::run_stretches(const Forward& forward) {
  const StepInputs& inputs = *forward.inputs;
  // Somebody else has computed with the device: no expert is where this run's books say.
  if (split_ && can_.experts != nullptr && can_.experts->expert_run() != expert_run_) begin_experts();
  LLADA_TRY_STATUS(prepare());
  LLADA_TRY(const std::shared_ptr<const Prepared> prepared, program(shape_of(inputs)));
  LLADA_TRY_STATUS(check_step(inputs, dry() ? KvGeometry{} : prepared->kv));
  empty(inputs, *forward.outputs);
  Ticket& ticket = last_ = 0;
  if (split_) split_->begin_step(inputs);
  for (const MemoryRuntime::Stretch& stretch : prepared->stretches) {
    if (memory_) LLADA_TRY_STATUS(memory_->before(*device_, stretch, ticket));
    Run run{prepared->program, stretch.first, stretch.last, &inputs, forward.outputs, stretch.unit};
    if (const Op& op = prepared->program->ops[stretch.first]; split_ && op.kind == OpKind::experts) {
      LLADA_TRY_STATUS(device_->wait(ticket));  // the plan needs what the router decided
      LLADA_TRY(run.experts, split_->plan(*device_, *prepared->program, op, inputs));
    }
    LLADA_TRY(ticket, device_->submit(run));
    if (memory_) LLADA_TRY_STATUS(memory_->after(stretch));
  }
  LLADA_TRY_STATUS(device_->wait(ticket));
  return finish_results(forward);
}

Status Executor::finish_results(const Forward& forward) const {
  const auto& [inputs, outputs, told] = forward;
  std::vector<Status> streams(inputs->streams.size());
  if (!dry()) {
    const size_t rows = inputs->predictions.size();
    const std::string name = device_->info().name;
    if (outputs->predictions.size() != rows)
      return failed("{}: {} predictions came back, {} were asked for", name, outputs->predictions.size(), rows);
    std::vector<int32_t> stream_of;  // by wanted row
    for (const RowSpan& span : inputs->spans)
      while (stream_of.size() < inputs->wanted.size() && inputs->wanted[stream_of.size()] < span.begin + span.count)
        stream_of.push_back(span.stream);
    const auto finite = [](float x) { return std::isfinite(x); };
    for (size_t r = 0; r < rows; ++r) {
      Prediction& p = outputs->predictions[r];
      const auto wanted = static_cast<size_t>(inputs->predictions[r].conditional);
      p.position = inputs->positions[static_cast<size_t>(inputs->wanted[wanted])];
      Status& stream = streams[static_cast<size_t>(stream_of[wanted])];
      if (stream && !(p.token >= 0 && finite(p.logit) && std::isfinite(p.probability) && std::isfinite(p.entropy) &&
                      std::isfinite(p.margin)))
        stream = damaged("{}: the logits of position {} are not finite; the weights or the activations are damaged",
                         name, p.position);
    }
    for (size_t s = 0; s < streams.size() && s < outputs->logits.size(); ++s)
      if (streams[s] && !std::ranges::all_of(outputs->logits[s], finite))
        streams[s] = damaged("{}: logits are not finite; the weights or the activations are damaged", name);
  }
  if (told != nullptr) {
    *told = std::move(streams);
    return {};
  }
  for (const Status& stream : streams) LLADA_TRY_STATUS(stream);
  return {};
}

Status Executor::finish_beside() {
  const Ticket now = std::exchange(beside_, 0);
  const Ticket due = runs_beside() ? now : std::exchange(beside_before_, now);
  const auto forward = std::exchange(under_way_, {});
  return within_memory([&]() -> Status {
    if (due > 0) LLADA_TRY_STATUS(device_->wait(due));
    return forward ? finish_results(*forward) : Status{};
  });
}

Status Executor::submit_beside(const Forward& forward) {
  return within_memory([&] { return start_beside(forward); });
}

Status Executor::start_beside(const Forward& forward) {
  const StepInputs& inputs = *forward.inputs;
  LLADA_TRY_STATUS(prepare());
  LLADA_TRY(const std::shared_ptr<const Prepared> prepared, program(shape_of(inputs)));
  LLADA_TRY_STATUS(check_step(inputs, dry() ? KvGeometry{} : prepared->kv));
  empty(inputs, *forward.outputs);
  Run run{prepared->program, 0, prepared->program->ops.size(), &inputs, forward.outputs};
  run.unit = Unit::host;
  if (can_.beside != nullptr) {
    LLADA_TRY(beside_, can_.beside->submit_beside(run));
  } else {
    LLADA_TRY(const Ticket ticket, device_->submit(run));
    LLADA_TRY_STATUS(device_->wait(ticket));
  }
  if (!runs_beside()) return finish_results(forward);
  under_way_ = forward;
  return {};
}

Status Executor::fall_back(const Error& error) {
  if (options_.fallback == nullptr || fell_back_) return std::unexpected(error);
  if (options_.warn)
    options_.warn(
        fmt::format("{}; this step and all later ones run on {}", error.message, options_.fallback->info().name));
  fell_back_ = true;
  device_ = options_.fallback;
  can_ = device_->capabilities();
  memory_.reset();
  // The fallback computes all experts; a listener goes on listening.
  if (options_.experts) {
    options_.experts->costs.reset();
    split_.reset();
  }
  recent_.clear();
  beside_ = beside_before_ = 0;
  prepared_ = false;
  return {};
}

namespace {

void mark_computed(const StepInputs& inputs) {
  for (const RowSpan& span : inputs.spans) {  // a trial's rows are not stored
    const Stream& stream = inputs.streams[static_cast<size_t>(span.stream)];
    for (int32_t r = span.begin; !span.trial && stream.kv != nullptr && r < span.begin + span.count; ++r)
      stream.kv->set_version(span.sequence, inputs.positions[static_cast<size_t>(r)], stream.sampling.forward_number);
  }
}

}  // namespace

Status Executor::run(const StepInputs& inputs, StepOutputs& outputs, std::vector<Status>* streams) {
  const Forward forward{&inputs, &outputs, streams};
  const std::optional<Forward> other = under_way_;
  const auto broken = [](const Status& status) { return !status && status.error().kind == ErrorKind::failed; };
  // Both are waited for before anything else is done: neither is under way, nor its failure lost, whatever follows.
  Status step = run_once(forward), beside = finish_beside();
  if (broken(step) || broken(beside)) {
    LLADA_TRY_STATUS(fall_back(broken(step) ? step.error() : beside.error()));
    if (broken(beside)) {
      // Of one that has only emulated time left the numbers are there.
      beside = other ? submit_beside(*other) : Status{};
      if (beside) beside = finish_beside();
    }
    if (broken(step)) step = run_once(forward);
  }
  LLADA_TRY_STATUS(step);
  LLADA_TRY_STATUS(beside);
  mark_computed(inputs);
  return {};
}

Status Executor::run_beside(const StepInputs& inputs, StepOutputs& outputs, std::vector<Status>* streams) {
  const Forward forward{&inputs, &outputs, streams};
  if (const Status status = submit_beside(forward); !status) {
    if (status.error().kind != ErrorKind::failed) return status;
    LLADA_TRY_STATUS(fall_back(status.error()));
    LLADA_TRY_STATUS(submit_beside(forward));
  }
  mark_computed(inputs);
  return {};
}

}  // namespace llada
