#include "engine/request.h"

#include "decode/answer.h"
#include "decode/canvas.h"

namespace llada {
namespace {

Result<decode::Canvas> lay(const Model& model, const Request& request) {
  const decode::SpecialIds& ids = model.special_ids();
  const bool infill = request.gaps.has_value();
  const auto size = static_cast<int64_t>(request.tokens.size());
  LLADA_TRY_STATUS(decode::validate(request.options, infill));
  LLADA_TRY_STATUS(decode::validate_for(request.options, ids, infill));
  if (!infill) {
    LLADA_TRY_STATUS(check_context(model, size, request.options.gen_length));
    return decode::lay_generation(request.tokens, request.options.gen_length, ids);
  }
  if (model.config().context > 0 && size > model.config().context)
    return invalid("{}: the text needs {} positions; the model was trained for {}", model.file().path(), size,
                   model.config().context);
  return decode::lay_infill(request.tokens, *request.gaps, ids);
}

}  // namespace

int64_t canvas_positions(const Model& model, int64_t prompt_tokens, int64_t gen_length) {
  return decode::generation_size(prompt_tokens, gen_length, model.special_ids());
}

Status check_context(const Model& model, int64_t prompt_tokens, int64_t gen_length) {
  const int64_t context = model.config().context;
  const int64_t needed = canvas_positions(model, prompt_tokens, gen_length);
  if (context > 0 && needed > context)
    return invalid("{}: {} prompt tokens and a generation length of {} need {} positions; the model was trained for {}",
                   model.file().path(), prompt_tokens, gen_length, needed, context);
  return {};
}

Status check_tokens(const Model& model, std::span<const int32_t> tokens) {
  for (const int32_t token : tokens)
    if (token < 0 || token >= model.config().vocab)
      return invalid("token id {} is outside the vocabulary of {}", token, model.config().vocab);
  return {};
}

Result<OwnDevices> share_devices(const Model& model, int threads) {
  OwnDevices own;
  if (threads <= 0) return own;
  LLADA_TRY(own.device, model.device().share(threads));
  if (model.fallback() != nullptr) {
    LLADA_TRY(own.fallback, model.fallback()->share(threads));
  }
  return own;
}

Device& device_of(const Model& model, const OwnDevices& own) { return own.device ? *own.device : model.device(); }

ExecutorOptions executor_options(const Model& model, const OwnDevices& own,
                                 const std::function<void(const std::string&)>& warn) {
  return {.memory = model.memory(),
          .experts = model.experts(),
          .fallback = own.device ? own.fallback.get() : model.fallback(),
          .warn = warn};
}

RunningRequest::RunningRequest(std::shared_ptr<const Model> model, const Request& request, decode::Canvas canvas,
                               std::shared_ptr<decode::Strategy> strategy)
    : model_(std::move(model)),
      options_(request.options),
      infill_(request.gaps.has_value()),
      shares_prefix_(model_->special_ids().attention_block > 0 && options_.kv == decode::KvChoice::block &&
                     options_.cfg_scale == 0),
      prompt_tokens_(static_cast<int64_t>(request.tokens.size()) -
                     (infill_ ? static_cast<int64_t>(request.gaps->size()) : 0)),
      denoiser_(std::move(canvas), std::move(strategy)) {}

Result<std::unique_ptr<RunningRequest>> RunningRequest::create(std::shared_ptr<const Model> model,
                                                               const Request& request, int threads) {
  LLADA_TRY(auto canvas, lay(*model, request));
  LLADA_TRY_STATUS(check_tokens(*model, canvas.tokens));
  decode::DecodeOptions resolved = request.options;
  if (resolved.device_latency) {
    LLADA_TRY(const LatencyTable table, model->latency(threads));
    resolved.latency_table = table.buckets();
    resolved.device_latency = false;
  }
  LLADA_TRY(auto strategy, decode::make_strategy(resolved, model->special_ids(), canvas));
  return std::unique_ptr<RunningRequest>(
      new RunningRequest(std::move(model), request, std::move(canvas), std::move(strategy)));
}

Status RunningRequest::allocate(Device& device, PrefixCache* prefixes) {
  const decode::SpecialIds& ids = model_->special_ids();
  begin_ = std::chrono::steady_clock::now();
  LLADA_TRY(state_, RequestState::create(*model_, device, denoiser_.canvas().size(), options_.cfg_scale > 0,
                                         decode::head_rule(options_, ids, infill_)));
  if (prefixes == nullptr || !shares_prefix_) return {};
  cursor_ = prefixes->begin(model_, state_->kv.shape(), ids.attention_block);
  // Up to the block of the first mask, whose own rows are computed in any case.
  stats_.reused_positions = prefixes->fill(*cursor_, tokens(decode::generated_begin(denoiser_.canvas())), state_->kv);
  denoiser_.stored(stats_.reused_positions);
  return {};
}

std::span<const int32_t> RunningRequest::tokens(int64_t count) const {
  return std::span(denoiser_.canvas().tokens).first(static_cast<size_t>(count));
}

Result<RequestStep> RunningRequest::step() {
  LLADA_TRY(const decode::StepPlan& plan, denoiser_.plan());
  return RequestStep{&plan, &*state_, denoiser_.forward_number()};
}

Result<decode::StepEvent> RunningRequest::take(decode::StepResult result, double device_seconds,
                                               PrefixCache* prefixes) {
  stats_.device_seconds += device_seconds;
  auto event = denoiser_.take(std::move(result));
  if (event && cursor_ && prefixes != nullptr)
    prefixes->publish(*cursor_, tokens(denoiser_.exact_prefix()), state_->kv);
  return event;
}

Generation RunningRequest::finish(const Device& device) {
  const decode::SpecialIds& ids = model_->special_ids();
  decode::Canvas& canvas = denoiser_.canvas();
  Generation result{.tokens = {}, .text = {}, .stats = std::move(stats_)};
  GenerationStats& stats = result.stats;
  if (!infill_) decode::canonical_tail(canvas, ids);
  if (state_) stats.kv_bytes = state_->kv.bytes();
  if (state_) stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  stats.decode = denoiser_.stats();
  stats.prompt_tokens = prompt_tokens_;
  stats.content_tokens = decode::content_tokens(canvas, ids);
  stats.canvas_hash = decode::canvas_hash(canvas);
  stats.device = device.info().description;
  const int64_t begin = infill_ ? 0 : prompt_tokens_;
  result.tokens.assign(canvas.tokens.begin() + begin, canvas.tokens.begin() + canvas.answer_end());
  if (model_->has_tokenizer()) {
    const auto length =
        infill_ ? result.tokens.size() : static_cast<size_t>(decode::answer_length(canvas, begin, ids.end_ids));
    result.text = model_->tokenizer().decode(std::span(result.tokens).first(length));
  }
  return result;
}

}  // namespace llada
