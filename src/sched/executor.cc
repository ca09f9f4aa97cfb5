#include "sched/executor.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace llada {
namespace {

// A device without a window runs a program in one piece per unit.
std::vector<MemoryRuntime::Segment> cut_by_unit(const Device& device, const Program& program) {
  std::vector<MemoryRuntime::Segment> out;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Unit unit = device.place(program.ops[i]);
    if (out.empty() || out.back().unit != unit) out.push_back({i, i, unit, {}, {}});
    out.back().last = i + 1;
  }
  return out;
}

// Every experts op in a segment of its own, so that its routing can be looked at before.
std::vector<MemoryRuntime::Segment> cut_at_experts(const Program& program, std::vector<MemoryRuntime::Segment> from) {
  std::vector<MemoryRuntime::Segment> out;
  for (MemoryRuntime::Segment& whole : from) {
    MemoryRuntime::Segment rest = whole;
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

bool broken(const Status& status) { return !status && status.error().kind == ErrorKind::failed; }

void mark_computed(const StepInputs& inputs) {
  for (const RowSpan& span : inputs.spans) {  // a trial's rows are not stored
    const Stream& stream = inputs.streams[static_cast<size_t>(span.stream)];
    for (int32_t r = span.begin; !span.trial && stream.kv != nullptr && r < span.begin + span.count; ++r)
      stream.kv->set_version(span.sequence, inputs.kept_at()[static_cast<size_t>(r)], stream.sampling.forward_number);
  }
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
  auto segments = memory_ ? memory_->cut(*device_, *built) : cut_by_unit(*device_, *built);
  if (split_) segments = cut_at_experts(*built, std::move(segments));
  const KvGeometry kv = kv_geometry(*built);
  return recent_.keep(shape, {std::move(built), std::move(segments), kv});
}

Result<std::shared_ptr<const Executor::Prepared>> Executor::prepared_for(const Forward& forward) {
  LLADA_TRY_STATUS(prepare());
  const StepInputs& inputs = *forward.inputs;
  LLADA_TRY(auto prepared, program(shape_of(inputs)));
  LLADA_TRY_STATUS(check_step(inputs, dry() ? KvGeometry{} : prepared->kv));
  forward.outputs->tempered.clear();
  forward.outputs->predictions.clear();  // memory of the step before stays for the device
  forward.outputs->logits.resize(inputs.streams.size());
  forward.outputs->scores.assign(inputs.streams.size(), {});
  for (size_t s = 0; s < inputs.streams.size(); ++s)  // those that are kept are written whole
    if (inputs.predictions.empty() || !inputs.streams[s].keep_logits) forward.outputs->logits[s].clear();
  return prepared;
}

Status Executor::finish(const Forward& forward) const {
  const auto& [inputs, outputs, told] = forward;
  std::vector<Status> streams(inputs->streams.size());
  if (!dry()) {
    const size_t rows = inputs->predictions.size();
    const auto name = [&] { return device_->info().name; };
    if (outputs->predictions.size() != rows)
      return failed("{}: {} predictions came back, {} were asked for", name(), outputs->predictions.size(), rows);
    std::vector<size_t> scored(streams.size(), 0);
    std::vector<int32_t> stream_of;  // by wanted row
    for (const RowSpan& span : inputs->spans)
      while (stream_of.size() < inputs->wanted.size() && inputs->wanted[stream_of.size()] < span.begin + span.count)
        stream_of.push_back(span.stream);
    const auto finite = [](float x) { return std::isfinite(x); };
    for (size_t r = 0; r < rows; ++r) {
      Prediction& p = outputs->predictions[r];
      const auto wanted = static_cast<size_t>(inputs->predictions[r].conditional);
      p.position = inputs->positions[static_cast<size_t>(inputs->wanted[wanted])];
      ++scored[static_cast<size_t>(stream_of[wanted])];
      Status& stream = streams[static_cast<size_t>(stream_of[wanted])];
      if (stream && !(p.token >= 0 && finite(p.logit) && std::isfinite(p.probability) && std::isfinite(p.entropy) &&
                      std::isfinite(p.margin)))
        stream = damaged("{}: the logits of position {} are not finite; the weights or the activations are damaged",
                         name(), p.position);
    }
    for (size_t s = 0; s < streams.size(); ++s)
      if (inputs->streams[s].reading.classes != nullptr && outputs->scores[s].size() != scored[s])
        return failed("{}: {} rows of scores came back, {} were asked for", name(), outputs->scores[s].size(),
                      scored[s]);
    const auto tempered = [&](size_t s) { return inputs->streams[s].tempering.temperature > 0; };
    for (size_t s = 0; s < streams.size(); ++s)
      if (tempered(s) && outputs->tempered.size() != streams.size())
        return failed("{}: cannot draw tokens for canvases of random tokens", name());
    // Where a prediction is of every row's softmax, it has said so.
    for (size_t s = 0; s < streams.size() && s < outputs->logits.size(); ++s)
      if (streams[s] && !tempered(s) && !std::ranges::all_of(outputs->logits[s], finite))
        streams[s] = damaged("{}: logits are not finite; the weights or the activations are damaged", name());
  }
  if (told != nullptr) {
    *told = std::move(streams);
    return {};
  }
  for (const Status& stream : streams) LLADA_TRY_STATUS(stream);
  return {};
}

Status Executor::submit_side_pass(SidePass& pass) {
  return within_memory([&]() -> Status {
    LLADA_TRY(const auto prepared, prepared_for({&pass.inputs, &pass.outputs, nullptr}));
    const Run run{prepared->program, 0, prepared->program->ops.size(), &pass.inputs, &pass.outputs, Unit::host};
    pass.device = device_, pass.ended = {};
    if (can_.side_passes != nullptr) {
      LLADA_TRY(pass.ticket, can_.side_passes->submit_side_pass(run));
    } else {
      LLADA_TRY(const Ticket ticket, device_->submit(run));
      LLADA_TRY_STATUS(device_->wait(ticket));
    }
    pass.computed = !overlaps_side_passes();
    return {};
  });
}

Status Executor::begin_side_pass(std::shared_ptr<SidePass> pass) {
  drop_ended();
  under_way_.reserve(under_way_.size() + 1);  // or a pass that has begun might have no owner
  if (const Status status = submit_side_pass(*pass); !status) {
    if (!broken(status)) return status;
    LLADA_TRY_STATUS(fall_back(status.error()));
    LLADA_TRY_STATUS(submit_side_pass(*pass));
  }
  mark_computed(pass->inputs);
  if (!pass->computed) under_way_.push_back(std::move(pass));
  return {};
}

bool Executor::is_ready(const SidePass& pass) const {
  if (pass.joined || pass.ticket == 0) return true;
  SidePasses* const side = pass.device->capabilities().side_passes;
  return side == nullptr || side->ready(pass.ticket);
}

void Executor::drop_ended() {
  std::erase_if(under_way_, [this](const auto& pass) {
    const bool ended = is_ready(*pass);
    if (ended) wait_for(*pass);
    return ended;
  });
}

void Executor::wait_for(SidePass& pass) {
  if (pass.ticket == 0) return;
  pass.ended = within_memory([&] { return pass.device->wait(std::exchange(pass.ticket, 0)); });
}

Status Executor::join(SidePass& pass) {
  if (pass.joined) return *pass.joined;
  wait_for(pass);
  if (broken(pass.ended)) {
    if (pass.device == device_) pass.ended = fall_back(pass.ended.error());
    // On a simulated device the results are already computed.
    if (pass.device != device_) pass.ended = pass.computed ? Status{} : submit_side_pass(pass);
    wait_for(pass);
  }
  std::erase_if(under_way_, [&](const auto& other) { return other.get() == &pass; });
  if (pass.ended) pass.ended = finish({&pass.inputs, &pass.outputs, &pass.streams});
  pass.joined = pass.ended;
  return pass.ended;
}

void Executor::drain() {
  for (const auto& pass : std::exchange(under_way_, {})) wait_for(*pass);
}

Status Executor::while_narrower(Status ended, const std::function<Status()>& attempt) {
  const Status first = ended;
  std::string said;
  while (broken(ended) && !fell_back_ && can_.window != nullptr) {
    for (const auto& pass : under_way_) wait_for(*pass);  // which read the weights that are laid out anew
    std::string line = can_.window->narrow();
    if (line.empty()) break;
    said = std::move(line);
    memory_.reset();
    recent_.clear();
    prepared_ = false;
    ended = attempt();
    // Too little for any plan: the first failure is the reason.
    if (!ended && ended.error().kind == ErrorKind::invalid_input) ended = first;
  }
  if (ended && !said.empty() && options_.warn) options_.warn(said);
  return ended;
}

Status Executor::fall_back(const Error& error) {
  if (options_.fallback == nullptr || fell_back_) return std::unexpected(error);
  if (options_.warn)
    options_.warn(
        fmt::format("{}; this step and all later ones run on {}", error.message, options_.fallback->info().name));
  fell_back_ = true;
  // The work that it still computes ends before any of its memory is given up.
  for (const auto& pass : under_way_) wait_for(*pass);
  device_ = options_.fallback;
  can_ = device_->capabilities();
  memory_.reset();
  // The fallback computes all experts; a listener goes on listening.
  if (options_.experts) {
    options_.experts->costs.reset();
    split_.reset();
  }
  recent_.clear();
  prepared_ = false;
  return {};
}

Status Executor::run(const StepInputs& inputs, StepOutputs& outputs, std::vector<Status>* streams) {
  drop_ended();
  const Forward forward{&inputs, &outputs, streams};
  Ticket last = 0;  // of the step's runs
  const auto compute = [&]() -> Status {
    // Somebody else has computed with the device: no expert is where this run's books say.
    if (split_ && can_.experts != nullptr && can_.experts->expert_run() != expert_run_) begin_experts();
    LLADA_TRY(const auto prepared, prepared_for(forward));
    if (split_) split_->begin_step();
    for (const MemoryRuntime::Segment& segment : prepared->segments) {
      if (memory_) LLADA_TRY_STATUS(memory_->before(*device_, segment, last));
      Run run{prepared->program, segment.first, segment.last, &inputs, &outputs, segment.unit};
      if (const Op& op = prepared->program->ops[segment.first]; split_ && op.kind == OpKind::experts) {
        LLADA_TRY_STATUS(device_->wait(last));  // the plan needs the router's decision
        LLADA_TRY(run.experts, split_->plan(*device_, *prepared->program, op, inputs));
      }
      LLADA_TRY(last, device_->submit(run));
      if (memory_) LLADA_TRY_STATUS(memory_->after(segment));
    }
    LLADA_TRY_STATUS(device_->wait(last));
    return finish(forward);
  };
  const auto attempt = [&] {
    Status status = within_memory(compute);
    // A sound device may still write the results of earlier work; it shall not when somebody else uses their memory.
    if (!status && status.error().kind != ErrorKind::failed) static_cast<void>(device_->wait(last));
    last = 0;
    return status;
  };
  Status step = while_narrower(attempt(), attempt);
  if (broken(step)) {
    LLADA_TRY_STATUS(fall_back(step.error()));
    step = attempt();
  }
  LLADA_TRY_STATUS(step);
  mark_computed(inputs);
  return {};
}

}  // namespace llada
