#include "engine/session.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "decode/answer.h"
#include "decode/canvas.h"
#include "engine/model_runner.h"

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

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Model> model,
                                                 const SessionOptions& options) {
  std::unique_ptr<Device> own, fallback;
  if (options.threads > 0) {
    LLADA_TRY(own, model->device().share(options.threads));
    if (model->fallback() != nullptr) {
      LLADA_TRY(fallback, model->fallback()->share(options.threads));
    }
  }
  return std::unique_ptr<Session>(new Session(std::move(model), std::move(own), std::move(fallback), options));
}

int64_t canvas_positions(const Model& model, int64_t prompt_tokens, int64_t gen_length) {
  return decode::generation_size(prompt_tokens, gen_length, model.special_ids());
}

Status check_context(const Model& model, int64_t prompt_tokens, int64_t gen_length) {
  const int64_t context = model.config().context;
  const int64_t needed = canvas_positions(model, prompt_tokens, gen_length);
  if (context > 0 && needed > context)
    return invalid(
        "{}: {} prompt tokens and a generation length of {} need {} positions; the model was trained for {}",
        model.file().path(), prompt_tokens, gen_length, needed, context);
  return {};
}

Status check_tokens(const Model& model, std::span<const int32_t> tokens) {
  for (const int32_t token : tokens)
    if (token < 0 || token >= model.config().vocab)
      return invalid("token id {} is outside the vocabulary of {}", token, model.config().vocab);
  return {};
}

Result<Generation> Session::generate(std::span<const int32_t> prompt, const decode::DecodeOptions& options,
                                     const StepCallback& on_step) {
  LLADA_TRY_STATUS(decode::validate(options));
  LLADA_TRY_STATUS(decode::validate_for(options, model_->special_ids()));
  LLADA_TRY_STATUS(check_context(*model_, static_cast<int64_t>(prompt.size()), options.gen_length));
  decode::Canvas canvas = decode::lay_generation(prompt, options.gen_length, model_->special_ids());
  LLADA_TRY(auto result, denoise(canvas, options, false, on_step));
  const auto begin = static_cast<int64_t>(prompt.size());
  result.tokens.assign(canvas.tokens.begin() + begin, canvas.tokens.begin() + canvas.answer_end());
  if (model_->has_tokenizer()) {
    const auto length =
        static_cast<size_t>(decode::answer_length(canvas, begin, model_->special_ids().end_ids));
    result.text = model_->tokenizer().decode(std::span(result.tokens).first(length));
  }
  result.stats.prompt_tokens = begin;
  return result;
}

Result<Generation> Session::infill(std::span<const int32_t> tokens, std::span<const int32_t> gaps,
                                   const decode::DecodeOptions& options, const StepCallback& on_step) {
  LLADA_TRY_STATUS(decode::validate(options, true));
  LLADA_TRY_STATUS(decode::validate_for(options, model_->special_ids(), true));
  const int64_t context = model_->config().context;
  if (context > 0 && static_cast<int64_t>(tokens.size()) > context)
    return invalid("{}: the text needs {} positions; the model was trained for {}", model_->file().path(),
                   tokens.size(), context);
  LLADA_TRY(auto canvas, decode::lay_infill(tokens, gaps, model_->special_ids()));
  LLADA_TRY(auto result, denoise(canvas, options, true, on_step));
  result.tokens = canvas.tokens;
  if (model_->has_tokenizer()) result.text = model_->tokenizer().decode(result.tokens);
  result.stats.prompt_tokens = static_cast<int64_t>(tokens.size() - gaps.size());
  return result;
}

Result<ExecutorOptions> Session::executor_options() const {
  ExecutorOptions options{.memory = model_->memory(),
                          .experts = model_->experts(),
                          .fallback = own_device_ ? own_fallback_.get() : model_->fallback(),
                          .warn = warn_};
  if (routing_) {
    if (!options.experts) {
      LLADA_TRY(options.experts, listen_to_experts(model_->file()));
    }
    options.experts->listen = routing_;
  }
  return options;
}

Result<Generation> Session::denoise(decode::Canvas& canvas, const decode::DecodeOptions& options, bool infill,
                                    const StepCallback& on_step) {
  const decode::SpecialIds& ids = model_->special_ids();
  LLADA_TRY_STATUS(check_tokens(*model_, canvas.tokens));
  decode::DecodeOptions resolved = options;
  if (resolved.device_latency) {
    LLADA_TRY(const LatencyTable table, model_->latency(threads_));
    resolved.latency_table = table.buckets();
    resolved.device_latency = false;
  }
  const auto run = model_->begin_run();
  const TracedRun traced(device(), trace_);
  LLADA_TRY(auto strategy, decode::make_strategy(resolved, ids, canvas));
  LLADA_TRY(auto executor, executor_options());
  LLADA_TRY(auto runner, ModelRunner::create(*model_, device(), canvas.size(), options.cfg_scale > 0,
                                             decode::head_rule(options, ids, infill), trace_, std::move(executor)));
  device().take_phase_times();
  device().reset_emulated();

  Generation result;
  const auto begin = std::chrono::steady_clock::now();
  LLADA_TRY(result.stats.decode, decode::denoise(canvas, *strategy, *runner, on_step));
  if (!infill) decode::canonical_tail(canvas, ids);
  result.stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.stats.device_seconds = runner->device_seconds();
  result.stats.phase_ms = device().take_phase_times();
  result.stats.content_tokens = decode::content_tokens(canvas, ids);
  result.stats.kv_bytes = runner->kv_bytes();
  result.stats.canvas_hash = decode::canvas_hash(canvas);
  result.stats.device = device().info().description;
  // A clock that stopped half-way would mislead.
  if (!runner->fell_back()) result.stats.emulated = device().emulated();
  if (const MoeStats* experts = runner->expert_stats()) result.stats.experts = *experts;
  return result;
}

Result<std::vector<float>> Session::logits(std::span<const int32_t> tokens,
                                           std::span<const int32_t> positions) {
  LLADA_TRY_STATUS(check_tokens(*model_, tokens));
  const auto run = model_->begin_run();
  const TracedRun traced(device(), trace_);
  LLADA_TRY(auto executor, executor_options());
  LLADA_TRY(auto runner,
            ModelRunner::create(*model_, device(), static_cast<int64_t>(tokens.size()), false, {}, trace_,
                                             std::move(executor)));
  decode::StepPlan plan;
  plan.rows.resize(tokens.size());
  std::iota(plan.rows.begin(), plan.rows.end(), 0);
  plan.inputs.assign(tokens.begin(), tokens.end());
  plan.logits.assign(positions.begin(), positions.end());
  plan.keys = static_cast<int32_t>(tokens.size());
  runner->keep_logits(true);
  LLADA_TRY(auto result, runner->run(plan, 0));
  return runner->logits();
}

}  // namespace llada
