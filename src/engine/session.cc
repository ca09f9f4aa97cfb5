#include "engine/session.h"

#include <algorithm>
#include <numeric>

#include "decode/canvas.h"
#include "decode/decided_first.h"

namespace llada {
namespace {

// The device may be the model's, which other sessions use before and after: a trace is its for one run.
class TracedRun {
 public:
  TracedRun(Device& device, Trace* trace) : device_(device) { device_.set_trace(trace); }
  ~TracedRun() { device_.set_trace(nullptr); }
  TracedRun(const TracedRun&) = delete;
  TracedRun& operator=(const TracedRun&) = delete;

 private:
  Device& device_;
};

}  // namespace

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Model> model, const SessionOptions& options) {
  LLADA_TRY(auto own, share_devices(*model, options.threads));
  return std::unique_ptr<Session>(new Session(std::move(model), std::move(own), options));
}

Result<Generation> Session::generate(std::span<const int32_t> prompt, const decode::DecodeOptions& options,
                                     const StepCallback& on_step) {
  LLADA_TRY(const Ready ready, prepare(*model_, {.tokens = {prompt.begin(), prompt.end()}, .options = options}));
  return run(ready, on_step);
}

Result<ExecutorOptions> Session::listening() const {
  ExecutorOptions options = executor_options(*model_, own_, options_.warn);
  if (options_.routing) {
    if (!options.experts) {
      LLADA_TRY(options.experts, listen_to_experts(model_->file()));
    }
    options.experts->listen = options_.routing;
  }
  return options;
}

Result<Generation> Session::run(const Ready& request, const StepCallback& on_step) {
  LLADA_TRY(const auto running, RunningRequest::create(model_, request, options_.threads, {.on_step = on_step}));
  const auto lock = model_->begin_run();
  const TracedRun traced(device(), options_.trace);
  LLADA_TRY(auto executor, listening());
  ModelRunner runner(*model_, device(), options_.trace, std::move(executor));
  LLADA_TRY_STATUS(running->allocate(device(), options_.prefixes.get()));
  device().take_phase_times();
  Clock* const clock = device().capabilities().clock;
  if (clock != nullptr) clock->reset_emulated();
  while (!running->done()) {
    std::vector<RequestStep> steps = running->steps(0);
    const double before = runner.device_seconds();
    runner.run(steps);
    LLADA_TRY_STATUS(steps[0].status);
    PrefixCache* const prefixes = runner.usable(options_.prefixes.get());
    LLADA_TRY_STATUS(running->take(steps[0], runner.device_seconds() - before, prefixes));
  }
  Generation generation = running->finish(device());
  GenerationStats& stats = generation.stats;
  stats.phase_ms = device().take_phase_times();
  // A clock that stopped half-way would mislead.
  if (clock != nullptr && !runner.fell_back()) stats.emulated = clock->emulated();
  if (const MoeStats* experts = runner.expert_stats()) stats.experts = *experts;
  return generation;
}

Status Session::finish_alone(ForwardJob& job, PrefixCache* prefixes) {
  const auto lock = model_->begin_run();
  const TracedRun traced(device(), options_.trace);
  LLADA_TRY(auto executor, listening());
  ModelRunner runner(*model_, device(), options_.trace, std::move(executor));
  LLADA_TRY_STATUS(job.allocate(device(), prefixes));
  while (!job.done()) {
    std::vector<RequestStep> steps = job.steps(0);
    runner.run(steps);
    LLADA_TRY_STATUS(steps[0].status);
    LLADA_TRY_STATUS(job.take(steps[0], 0, runner.usable(prefixes)));
  }
  return {};
}

Result<ScoreResult> Session::score(const ScoreRequest& request) {
  LLADA_TRY(const auto job, start_score(model_, request));
  LLADA_TRY_STATUS(finish_alone(*job, nullptr));
  return job->finish();
}

Result<DecideResult> Session::decide(const DecideRequest& request) {
  LLADA_TRY(const auto job, start_decide(model_, request));
  LLADA_TRY_STATUS(finish_alone(*job, options_.prefixes.get()));
  return job->finish();
}

Result<std::vector<float>> Session::logits(std::span<const int32_t> tokens, std::span<const int32_t> positions,
                                           int64_t prompt) {
  LLADA_TRY_STATUS(check_text(*model_, tokens));
  const auto lock = model_->begin_run();
  const TracedRun traced(device(), options_.trace);
  LLADA_TRY(auto executor, listening());
  ModelRunner runner(*model_, device(), options_.trace, std::move(executor));
  const auto size = std::ssize(tokens);
  LLADA_TRY(auto state, RequestState::create(*model_, device(), size, false, {}));
  state.keep_logits = state.every_row = true;
  decode::StepPlan plan;
  plan.rows.resize(tokens.size());
  std::iota(plan.rows.begin(), plan.rows.end(), 0);
  plan.inputs.assign(tokens.begin(), tokens.end());
  plan.logits.assign(positions.begin(), positions.end());
  plan.keys = static_cast<int32_t>(size);
  const decode::SpecialIds& ids = model_->special_ids();
  std::vector<bool> decided(static_cast<size_t>(prompt), true);
  for (const int32_t token : tokens.subspan(decided.size())) decided.push_back(token != ids.mask);
  if (ids.decided_first) plan.places = decode::decided_first_places(decided);
  if (ids.causal_text) plan.causal_below = static_cast<int32_t>(std::ranges::find(decided, false) - decided.begin());
  if (ids.prompt_ends_block) plan.block_origin = static_cast<int32_t>(ids.behind(prompt).block_origin);
  decode::Denoiser denoiser(decode::fixed_canvas(tokens), decode::one_forward(std::move(plan)));
  RequestStep step{&denoiser, &state};
  runner.run({&step, 1});
  LLADA_TRY_STATUS(step.status);
  return std::move(state.logits);
}

}  // namespace llada
