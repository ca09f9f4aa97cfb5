#include "sched/executor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sched/check_step.h"
#include "sched/chosen_rows.h"

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
  StepShape shape{static_cast<int32_t>(inputs.tokens.size()), static_cast<int32_t>(inputs.wanted.size()),
                  static_cast<int32_t>(inputs.predictions.size()), inputs.pass};
  const auto left_behind = static_cast<int32_t>(candidates_left_behind(inputs));
  if (left_behind == 0) return shape;
  shape.candidates = shape.wanted;
  shape.wanted -= left_behind;
  shape.predictions -= left_behind;
  return shape;
}

// What a device fills; memory of the step before stays for it.
void empty(const StepInputs& inputs, StepOutputs& outputs) {
  outputs.predictions.clear();
  outputs.chosen.clear();
  outputs.logits.resize(inputs.streams.size());
  for (auto& logits : outputs.logits) logits.clear();
}

}  // namespace

void Executor::join_beside() {
  if (runs_beside()) static_cast<void>(finish_beside());
}

Status Executor::prepare() {
  if (prepared_) return {};
  if (can_.window != nullptr && can_.window->window().weight_bytes != kUnlimitedWindow) {
    // One wanted row, so that every weight is there.
    LLADA_TRY(const auto built, build_(plain_shape(1, 1)));
    LLADA_TRY(memory_, MemoryRuntime::create(*device_, *built, options_.memory));
  }
  if (options_.experts && !split_) {
    if (can_.experts != nullptr) can_.experts->drop_experts();
    split_.emplace(*options_.experts);
  }
  prepared_ = true;
  return {};
}

Result<std::shared_ptr<const Executor::Prepared>> Executor::program(StepShape shape) {
  if (auto kept = recent_.find(shape)) return kept;
  LLADA_TRY(auto built, build_(shape));
  auto stretches = memory_ ? memory_->cut(*device_, *built) : cut_by_unit(*device_, *built);
  if (split_) stretches = cut_at_experts(*built, std::move(stretches));
  const KvGeometry kv = kv_geometry(*built);
  return recent_.keep(shape, {std::move(built), std::move(stretches), kv});
}

Status Executor::run_once(const StepInputs& inputs, StepOutputs& outputs) {
  LLADA_TRY_STATUS(prepare());
  LLADA_TRY(const std::shared_ptr<const Prepared> prepared, program(shape_of(inputs)));
  LLADA_TRY_STATUS(check_step(inputs, dry() ? KvGeometry{} : prepared->kv));
  empty(inputs, outputs);
  Ticket ticket = 0;
  if (split_) split_->begin_step(inputs);
  for (const MemoryRuntime::Stretch& stretch : prepared->stretches) {
    if (memory_) LLADA_TRY_STATUS(memory_->before(*device_, stretch, ticket));
    Run run{prepared->program, stretch.first, stretch.last, &inputs, &outputs, stretch.unit};
    if (const Op& op = prepared->program->ops[stretch.first]; split_ && op.kind == OpKind::experts) {
      LLADA_TRY_STATUS(device_->wait(ticket));  // the plan needs what the router decided
      LLADA_TRY(run.experts, split_->plan(*device_, *prepared->program, op, inputs));
    }
    LLADA_TRY(ticket, device_->submit(run));
    if (memory_) LLADA_TRY_STATUS(memory_->after(stretch));
  }
  LLADA_TRY_STATUS(device_->wait(ticket));
  LLADA_TRY_STATUS(finish_results(inputs, outputs));
  return finish_beside();
}

Status Executor::finish_results(const StepInputs& inputs, StepOutputs& outputs) const {
  if (dry()) return {};
  const size_t rows = inputs.predictions.size() - candidates_left_behind(inputs);
  LLADA_TRY(const std::vector<size_t> which, predictions_that_went_on(inputs, outputs));
  if (outputs.predictions.size() != rows)
    return failed("{}: {} predictions came back, {} were asked for", device_->info().name, outputs.predictions.size(),
                  rows);
  const auto finite = [](float x) { return std::isfinite(x); };
  for (size_t r = 0; r < rows; ++r) {
    Prediction& p = outputs.predictions[r];
    const auto wanted = static_cast<size_t>(inputs.predictions[which[r]].conditional);
    p.position = inputs.positions[static_cast<size_t>(inputs.wanted[wanted])];
    if (p.token >= 0 && std::isfinite(p.logit) && std::isfinite(p.probability) && std::isfinite(p.entropy) &&
        std::isfinite(p.margin))
      continue;
    return failed("{}: the logits of position {} are not finite; the weights or the activations are damaged",
                  device_->info().name, p.position);
  }
  for (const auto& logits : outputs.logits)
    if (!std::ranges::all_of(logits, finite))
      return failed("{}: logits are not finite; the weights or the activations are damaged", device_->info().name);
  return {};
}

Status Executor::finish_beside() {
  const Ticket now = std::exchange(beside_, 0);
  const Ticket due = runs_beside() ? now : std::exchange(beside_before_, now);
  const auto results = std::exchange(beside_results_, {});
  if (due > 0) LLADA_TRY_STATUS(device_->wait(due));
  return results ? results() : Status{};
}

Status Executor::submit_beside(const StepInputs& inputs, StepOutputs& outputs) {
  LLADA_TRY_STATUS(prepare());
  LLADA_TRY(const std::shared_ptr<const Prepared> prepared, program(shape_of(inputs)));
  LLADA_TRY_STATUS(check_step(inputs, dry() ? KvGeometry{} : prepared->kv));
  empty(inputs, outputs);
  Run run{prepared->program, 0, prepared->program->ops.size(), &inputs, &outputs};
  run.unit = Unit::host;
  if (can_.beside != nullptr) {
    LLADA_TRY(beside_, can_.beside->submit_beside(run));
  } else {
    LLADA_TRY(const Ticket ticket, device_->submit(run));
    LLADA_TRY_STATUS(device_->wait(ticket));
  }
  if (!runs_beside()) return finish_results(inputs, outputs);
  beside_results_ = [this, &inputs, &outputs] { return finish_results(inputs, outputs); };
  return {};
}

Status Executor::fall_back(const Error& error) {
  if (error.kind != ErrorKind::failed || options_.fallback == nullptr || fell_back_) return std::unexpected(error);
  if (options_.warn)
    options_.warn(
        fmt::format("{}; this step and all later ones run on {}", error.message, options_.fallback->info().name));
  fell_back_ = true;
  // What the host does beside is not the failed unit's, and its numbers are wanted.
  if (runs_beside()) LLADA_TRY_STATUS(finish_beside());
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

// Rows that did not go on have new keys and values in the first layers only: they stay what they were.
void mark_computed(const StepInputs& inputs, const StepOutputs& outputs) {
  const std::vector<bool> left = rows_left_behind(inputs, outputs);
  for (const RowSpan& span : inputs.spans) {  // a trial's rows are not stored
    const Stream& stream = inputs.streams[static_cast<size_t>(span.stream)];
    for (int32_t r = span.begin; !span.trial && stream.kv != nullptr && r < span.begin + span.count; ++r)
      if (!left[static_cast<size_t>(r)])
        stream.kv->set_version(span.sequence, inputs.positions[static_cast<size_t>(r)], stream.sampling.forward_number);
  }
}

}  // namespace

Status Executor::run(const StepInputs& inputs, StepOutputs& outputs) {
  if (const Status status = run_once(inputs, outputs); !status) {
    LLADA_TRY_STATUS(fall_back(status.error()));
    LLADA_TRY_STATUS(run_once(inputs, outputs));
  }
  mark_computed(inputs, outputs);
  return {};
}

Status Executor::run_beside(const StepInputs& inputs, StepOutputs& outputs) {
  if (const Status status = submit_beside(inputs, outputs); !status) {
    LLADA_TRY_STATUS(fall_back(status.error()));
    LLADA_TRY_STATUS(submit_beside(inputs, outputs));
  }
  mark_computed(inputs, outputs);
  return {};
}

}  // namespace llada
