#include "engine/request.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "decode/answer.h"
#include "decode/canvas.h"
#include "decode/form_keeper.h"
#include "decode/sampling.h"
#include "engine/text_rows.h"
#include "text/thoughts.h"

namespace llada {
namespace {

// Text with kHole where a token was not decided.
std::string text_with_holes(const Tokenizer& tokenizer, std::span<const int32_t> tokens,
                            std::span<const decode::TokenState> states) {
  std::string text;
  for (size_t begin = 0; begin < tokens.size();) {
    const bool hole = states[begin] == decode::TokenState::masked;
    size_t end = begin + 1;
    while (end < tokens.size() && (states[end] == decode::TokenState::masked) == hole) ++end;
    if (!hole) text += tokenizer.decode(tokens.subspan(begin, end - begin));
    for (; hole && begin < end; ++begin) text += kHole;
    begin = end;
  }
  return text;
}

}  // namespace

std::string_view finish_reason(const Generation& g) {
  if (g.stats.decode.cancelled) return "interrupted";
  return !g.stopped_by.empty() || g.fits || g.stats.content_tokens < std::ssize(g.tokens) ? "stop" : "length";
}

Status check_readable(const Model& model) {
  const decode::SpecialIds& ids = model.special_ids();
  if (ids.mask < 0) return invalid("{}: the model has no mask token", model.file().path());
  return {};
}

std::string text_so_far(const Model& model, const decode::Canvas& canvas, int64_t begin, std::string* thoughts,
                        bool calls) {
  auto length = static_cast<size_t>(canvas.infill ? canvas.answer_end() - begin
                                                  : decode::answer_length(canvas, begin, model.special_ids().end_ids));
  const auto from = static_cast<size_t>(begin);
  const std::span states = std::span(canvas.states).subspan(from);
  while (!canvas.infill && length > 0 && states[length - 1] == decode::TokenState::masked) --length;
  const auto tokens = std::span(canvas.tokens).subspan(from, length);
  if (model.chat_format().thought_begin < 0 && !calls) return text_with_holes(model.tokenizer(), tokens, states);
  std::vector<int32_t> decided(tokens.begin(), tokens.end());
  for (size_t i = 0; i < length; ++i)
    if (states[i] == decode::TokenState::masked) decided[i] = -1;
  AnswerParts parts =
      decided_parts(model.tokenizer(), model.chat_format(), decided,
                    thoughts_behind(model.chat_format(), std::span(canvas.tokens).first(from)), kHole, calls);
  if (thoughts != nullptr) *thoughts = std::move(parts.thought);
  return std::move(parts.said);
}

std::vector<int32_t> given_tokens(const decode::Canvas& canvas) {
  std::vector<int32_t> given = canvas.tokens;
  for (size_t i = 0; i < given.size(); ++i)
    if (canvas.states[i] != decode::TokenState::fixed) given[i] = -1;
  return given;
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

namespace {

// Whether what the request keeps of its prompt is what any other would.
bool keeps_what_others_would(const decode::SpecialIds& ids, const decode::DecodeOptions& o) {
  if (ids.uniform.length > 0) return true;
  if (ids.attention_block == 0 || ids.prompt_ends_block || o.cfg_scale > 0) return false;
  if (o.acceptance == decode::Acceptance::causal && !ids.causal_text) return false;  // causal inside blocks as well
  return o.kv != decode::KvChoice::none;  // of the policies that a block-causal model takes, the one that keeps nothing
}

// Where the rows of causal text say what comes next.
decode::SpecialIds causal(decode::SpecialIds ids) {
  ids.shift_logits |= ids.causal_text;
  return ids;
}

}  // namespace

RunningRequest::RunningRequest(std::shared_ptr<const Model> model, const ReadyRequest& ready, AnswerRun run,
                               decode::DecodeOptions options, std::shared_ptr<decode::Strategy> strategy)
    : model_(std::move(model)),
      options_(std::move(options)),
      stop_(ready.request.stop),
      alternatives_(ready.request.alternatives),
      run_(std::move(run)),
      first_positions_(llada::first_positions(*model_, ready.request, ready.canvas.size())),
      rule_(text_rule(*model_, options_, ready.canvas.infill)),
      ids_(model_->special_ids().behind(std::ssize(ready.request.tokens))),
      causal_ids_(causal(ids_)),
      form_(ready.form),
      infill_(ready.canvas.infill),
      shares_prefix_(keeps_what_others_would(model_->special_ids(), options_)),
      prompt_tokens_(ready.prompt_tokens),
      denoiser_(std::in_place, ready.canvas, std::move(strategy)) {}

Result<std::unique_ptr<RunningRequest>> RunningRequest::create(std::shared_ptr<const Model> model, const Ready& ready,
                                                               int threads, AnswerRun run) {
  const decode::SpecialIds& ids = model->special_ids();
  const Request& request = ready->request;
  decode::DecodeOptions options = request.options;
  options.seed += run.nth;
  decode::DecodeOptions measured = options;
  if (measured.device_latency) {
    LLADA_TRY(const LatencyTable table, model->latency(threads));
    measured.latency_table = table.buckets();
    measured.device_latency = false;
  }
  LLADA_TRY(auto strategy, decode::make_strategy(measured, ids, ready->canvas, ready->form));
  std::unique_ptr<RunningRequest> running(
      new RunningRequest(std::move(model), *ready, std::move(run), std::move(options), std::move(strategy)));
  if (!request.auto_gaps.empty())
    running->laying_.emplace(GapChoice(request.tokens, *request.gaps, request.auto_gaps, ids.mask),
                             std::move(measured));
  return running;
}

// One candidate after the other over one store: requests share forwards, so the rows of one need not fill a forward.
Status RunningRequest::allocate(Device& device, PrefixCache* prefixes) {
  begin_ = std::chrono::steady_clock::now();
  if (!laying_) return allocate_decoding(device, prefixes);
  LLADA_TRY(state_, RequestState::create(*model_, device, first_positions_, false, text_rule(*model_, {}, true)));
  plan_candidate();
  return {};
}

void RunningRequest::plan_candidate() {
  const GapChoice::Text text = laying_->choice.candidate();
  decode::StepPlan plan;
  plan.rows.resize(text.tokens.size());
  std::iota(plan.rows.begin(), plan.rows.end(), 0);
  plan.inputs = text.tokens;
  plan.keys = static_cast<int32_t>(text.tokens.size());
  for (const int32_t position : laying_->choice.asked()) plan.logits.push_back(ids_.row_of(position));
  plan.logits.erase(std::ranges::unique(plan.logits).begin(), plan.logits.end());
  ahead_.emplace(decode::fixed_canvas(text.tokens), decode::one_forward(std::move(plan)));
}

Status RunningRequest::take_candidate(RequestStep& step) {
  LLADA_TRY(const decode::StepEvent event, ahead_->take(std::move(step.result)));
  std::vector<double> probabilities;
  const std::vector<int32_t>& rows = event.plan.logits;
  for (const int32_t position : laying_->choice.asked()) {
    const auto row = std::ranges::lower_bound(rows, ids_.row_of(position)) - rows.begin();
    probabilities.push_back(event.predictions[static_cast<size_t>(row)].probability);
  }
  laying_->choice.take(probabilities);
  stats_.decode.nfe += ahead_->stats().nfe;
  stats_.decode.full_forwards += ahead_->stats().full_forwards;
  stats_.decode.rows += ahead_->stats().rows;
  stats_.decode.logit_rows += ahead_->stats().logit_rows;
  if (!laying_->choice.done()) {
    plan_candidate();
    return {};
  }
  ahead_.reset();
  const decode::SpecialIds& ids = model_->special_ids();
  const GapChoice::Text text = laying_->choice.candidate();
  LLADA_TRY(decode::Canvas canvas, decode::lay_infill(text.tokens, text.gaps, ids));
  LLADA_TRY(auto strategy, decode::make_strategy(laying_->measured, ids, canvas, form_));
  first_positions_ = canvas.size();
  denoiser_.emplace(std::move(canvas), std::move(strategy));
  Device& device = *state_->device;
  state_.reset();  // before the other one is made
  return allocate_decoding(device, nullptr);
}

Status RunningRequest::allocate_decoding(Device& device, PrefixCache* prefixes) {
  const decode::SpecialIds& ids = model_->special_ids();
  LLADA_TRY(state_, RequestState::create(*model_, device, first_positions_, options_.cfg_scale > 0, rule_));
  state_->prompt = prompt_tokens_, state_->most_positions = denoiser_->canvas().size();
  state_->keep_logits =
      decode::needs_logits(options_) || decode::ranks_tokens(options_) || alternatives_ > 0 || ids.uniform.length > 0;
  if (form_) state_->reading = decode::class_reading(*form_, options_);
  if (alternatives_ > 0) scores_.resize(static_cast<size_t>(denoiser_->canvas().size()));
  if (!shares_prefix_) return {};
  const int64_t page = ids.prefix_unit();
  // Up to the block of the first mask, whose own rows are computed in any case.
  const int64_t begin = decode::generated_begin(denoiser_->canvas());
  if (prefixes != nullptr) {
    cursor_ = prefixes->begin(model_, state_->kv.shape(), page);
    there_ = stats_.reused_positions = prefixes->fill(*cursor_, tokens(begin), state_->kv);
  }
  piece_ = std::max(kPromptPiece / page, int64_t{1}) * page;
  pieces_end_ = there_ + std::max<int64_t>(begin - 1 - there_, 0) / piece_ * piece_;
  if (run_.on_prompt && pieces_end_ > there_) run_.on_prompt(there_, begin);
  plan_ahead();
  return {};
}

void RunningRequest::plan_ahead() {
  ahead_.reset();
  if (there_ == pieces_end_) return denoiser_->stored(there_);
  decode::StepPlan plan;
  plan.encode = model_->special_ids().uniform.length > 0;
  plan.keys = static_cast<int32_t>(there_ + piece_);
  if (model_->special_ids().causal_text) plan.causal_below = plan.keys;
  plan.rows.resize(static_cast<size_t>(piece_));
  std::iota(plan.rows.begin(), plan.rows.end(), static_cast<int32_t>(there_));
  const auto known = tokens(plan.keys);
  plan.inputs.assign(known.begin() + there_, known.end());
  ahead_.emplace(decode::fixed_canvas(known), decode::one_forward(std::move(plan)));
}

void RunningRequest::take_ahead(PrefixCache* prefixes) {
  there_ += piece_;
  if (cursor_ && prefixes != nullptr) prefixes->publish(*cursor_, tokens(there_), state_->kv);
  if (run_.on_prompt) run_.on_prompt(there_, decode::generated_begin(denoiser_->canvas()));
  plan_ahead();
}

std::span<const int32_t> RunningRequest::tokens(int64_t count) const {
  return std::span(denoiser_->canvas().tokens).first(static_cast<size_t>(count));
}

Status RunningRequest::take(RequestStep& step, double device_seconds, PrefixCache* prefixes) {
  stats_.device_seconds += device_seconds;
  if (ahead_ && laying_) return take_candidate(step);
  if (ahead_) {
    take_ahead(prefixes);
    return {};
  }
  if (decode::needs_logits(options_))
    LLADA_TRY_STATUS(decode::predict_all(state_->logits, state_->sparse_logits, options_, rule_, ids_in(*step.plan),
                                         denoiser_->canvas(), denoiser_->sparse_canvas(), denoiser_->forward_number(),
                                         step.result));
  step.result.ranked = decode::rank_tokens(state_->logits, step.plan->logits.size(), step.plan->ranked, rule_);
  LLADA_TRY(const decode::StepEvent event, denoiser_->take(std::move(step.result)));
  if (alternatives_ > 0) keep_scores(event);
  if (cursor_ && prefixes != nullptr) prefixes->publish(*cursor_, tokens(denoiser_->exact_prefix()), state_->kv);
  if (!stop_.empty() && find_stop(std::min(event.committed, decided_answer()))) denoiser_->end();
  if (run_.on_step && !run_.on_step(event)) denoiser_->cancel();
  return {};
}

const decode::SpecialIds& RunningRequest::ids_in(const decode::StepPlan& plan) const {
  return plan.causal_below == plan.keys ? causal_ids_ : ids_;
}

// The kept logits that predict at this row: of the step's own predictions, or of a trial's.
std::span<const float> RunningRequest::logits_of(const decode::StepEvent& event, int32_t row) const {
  const decode::StepPlan& plan = event.plan;
  const int64_t vocabulary = model_->config().vocab;
  const auto found = std::ranges::lower_bound(plan.logits, row);
  if (found != plan.logits.end() && *found == row)
    return logits_row(state_->logits, static_cast<size_t>(found - plan.logits.begin()), vocabulary);
  const auto trial = [&](const std::vector<decode::Trial>& trials) {
    return static_cast<size_t>(std::ranges::find(trials, row, &decode::Trial::logits) - trials.begin());
  };
  if (const size_t i = trial(plan.trials); i < plan.trials.size())
    return logits_row(state_->logits, plan.logits.size() + i, vocabulary);
  if (event.landed != nullptr)
    if (const size_t i = trial(event.landed->trials); i < event.landed->trials.size())
      return logits_row(state_->sparse_logits, i, vocabulary);
  return {};
}

void RunningRequest::keep_scores(const decode::StepEvent& event) {
  const decode::SpecialIds& ids = ids_in(event.plan);
  const std::vector<TokenScore> before = event.plan.ranked > 0 ? scores_ : std::vector<TokenScore>();  // some may move
  for (const decode::Edit& edit : event.edits) {
    TokenScore& score = scores_[static_cast<size_t>(edit.position)];
    const int32_t from = edit.from >= 0 ? edit.from : edit.position;
    if (edit.from >= 0 && !before.empty()) score = before[static_cast<size_t>(from)];
    if (edit.state != decode::TokenState::masked && edit.token == score.token) continue;  // only said to be final
    score = {};
    if (edit.state == decode::TokenState::masked) continue;
    const auto logits = logits_of(event, ids.row_of(from));
    if (!logits.empty()) score = score_of(logits, edit.token, alternatives_);
  }
}

// Tokens of the answer before its end or its first mask.
int64_t RunningRequest::decided_answer() const {
  const decode::Canvas& canvas = denoiser_->canvas();
  const int64_t length = decode::answer_length(canvas, prompt_tokens_, model_->special_ids().end_ids);
  const auto begin = canvas.states.begin() + prompt_tokens_;
  return std::find(begin, begin + length, decode::TokenState::masked) - begin;
}

std::optional<RunningRequest::Stop> RunningRequest::find_stop(int64_t length) const {
  const auto all = tokens(prompt_tokens_ + length);
  const auto answer = all.subspan(static_cast<size_t>(prompt_tokens_));
  const ChatFormat& format = model_->chat_format();
  const Thoughts thoughts = thoughts_behind(format, all.first(static_cast<size_t>(prompt_tokens_)));
  const auto text_of = [&](int64_t count) {
    AnswerParts parts(model_->tokenizer(), format, thoughts);
    for (const int32_t token : answer.first(static_cast<size_t>(count))) parts.add(token);
    return std::move(parts.said);
  };
  const auto find = [&](int64_t count) {
    std::optional<Stop> found;
    const std::string text = text_of(count);
    for (const std::string& stop : stop_)
      if (const size_t at = text.find(stop); at != std::string::npos && (!found || at < found->text))
        found = Stop{count, at, stop};
    return found;
  };
  if (!find(length)) return {};
  // The first token that completes one, so that it does not matter how far the rest had come.
  int64_t least = 1, most = length;
  while (least < most) {
    const int64_t middle = (least + most) / 2;
    find(middle) ? most = middle : least = middle + 1;
  }
  return find(least);
}

Generation RunningRequest::finish(const Device& device) {
  const decode::SpecialIds& ids = model_->special_ids();
  decode::Canvas& canvas = denoiser_->canvas();
  Generation result{.tokens = {}, .text = {}, .stats = std::move(stats_)};
  GenerationStats& stats = result.stats;
  if (!infill_) decode::canonical_tail(canvas, ids);
  std::optional<Stop> stop;
  if (!stop_.empty()) stop = find_stop(decided_answer());
  if (stop) {
    const auto tail = static_cast<size_t>(prompt_tokens_ + stop->tokens);
    std::fill(canvas.states.begin() + static_cast<std::ptrdiff_t>(tail), canvas.states.end(),
              decode::TokenState::stable);
    if (ids.eos >= 0)
      std::fill(canvas.tokens.begin() + static_cast<std::ptrdiff_t>(tail), canvas.tokens.end(), ids.eos);
  }
  if (state_) stats.kv_bytes = state_->kv.bytes();
  if (state_) stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const decode::RunStats chosen = std::exchange(stats.decode, denoiser_->stats());
  stats.decode.nfe += chosen.nfe;
  stats.decode.full_forwards += chosen.full_forwards;
  stats.decode.logit_rows += chosen.logit_rows;
  stats.decode.rows += chosen.rows + there_ - stats.reused_positions;
  if (laying_) result.gap_lengths = laying_->choice.lengths();
  stats.prompt_tokens = prompt_tokens_;
  stats.content_tokens = stop ? stop->tokens : decode::content_tokens(canvas, ids);
  if (decode::samples(options_) || ids.uniform.length > 0 || options_.acceptance == decode::Acceptance::random)
    stats.seed = options_.seed;
  stats.canvas_hash = decode::canvas_hash(canvas);
  stats.device = device.info().description;
  const int64_t begin = infill_ ? 0 : prompt_tokens_;
  int64_t end = canvas.answer_end();
  if (options_.auto_length && !infill_) end = std::min(end, decode::first_end(canvas, begin, end, ids.end_ids) + 1);
  result.tokens.assign(canvas.tokens.begin() + begin, canvas.tokens.begin() + end);
  if (alternatives_ > 0 && state_) result.scores.assign(scores_.begin() + begin, scores_.begin() + end);
  result.fits = form_ != nullptr && !stop && !stats.decode.cancelled;
  if (model_->has_tokenizer())
    result.text = text_so_far(*model_, canvas, begin, &result.thoughts, !options_.tools.empty());
  if (stop) {
    result.text.resize(stop->text);
    result.stopped_by = stop->which;
  }
  return result;
}

}  // namespace llada
