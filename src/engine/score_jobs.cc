#include "engine/score_jobs.h"

#include <algorithm>
#include <utility>

#include "decode/canvas.h"
#include "decode/denoiser.h"
#include "engine/text_rows.h"

namespace llada {
namespace {

using decode::TokenState;

std::vector<ContinuationScore> empty_scores(const ScoreRequest& request) {
  std::vector<ContinuationScore> scores;
  const ScoreMethod method = request.options.method;
  const bool greedy = method != ScoreMethod::monte_carlo && method != ScoreMethod::pseudo;
  for (const std::vector<int32_t>& text : request.continuations) {
    ContinuationScore& score = scores.emplace_back();
    for (const int32_t token : text) score.tokens.push_back({.token = token});
    if (greedy) score.greedy = true;
  }
  return scores;
}

Result<RequestState> keeping_logits(const Model& model, Device& device, int64_t positions, bool guided,
                                    SamplingRule rule) {
  LLADA_TRY(auto state, RequestState::create(model, device, positions, guided, std::move(rule)));
  state.keep_logits = state.every_row = true;
  return state;
}

}  // namespace

int64_t score_lanes(const Model& model, int64_t canvas_rows, int64_t rows) {
  return model.special_ids().attention_block > 0 ? 1 : lanes_at_once(canvas_rows, rows);
}

CanvasScore::CanvasScore(std::shared_ptr<const Model> model, const ScoreRequest& request)
    : model_(std::move(model)),
      request_(request),
      no_text_(rows_without_text(*model_)),
      canvases_(score_canvases(request, model_->special_ids())),
      answers_(canvases_.size()),
      lanes_(model_, lanes_setup()) {}

CanvasLanes::Setup CanvasScore::lanes_setup() const {
  const auto prompt = static_cast<int64_t>(request_.prompt.size());
  CanvasLanes::Setup setup{.canvases = canvases_.size(), .cfg_scale = request_.options.cfg_scale};
  for (const ScoreCanvas& canvas : canvases_) setup.positions = std::max(setup.positions, canvas.end);
  setup.size = [this](size_t index) { return canvases_[index].end; };
  setup.canvas = [this, prompt](size_t index) {
    FixedCanvas canvas{.tokens = canvases_[index].tokens(request_, model_->special_ids().mask),
                       .positions = {},
                       .prompt = prompt,
                       .decided = canvases_[index].decided(request_)};
    for (const ScoreTarget& target : canvases_[index].targets)
      canvas.positions.push_back(static_cast<int32_t>(prompt + static_cast<int64_t>(target.offset)));
    return canvas;
  };
  setup.in_order = model_->special_ids().attention_block > 0;
  return setup;
}

Status CanvasScore::take(RequestStep& step, double /*device_seconds*/, PrefixCache* /*prefixes*/) {
  const auto prompt = static_cast<int64_t>(request_.prompt.size());
  const bool alternatives = request_.options.method != ScoreMethod::monte_carlo;
  return lanes_.take(step, nullptr, [&](size_t index, const CanvasReading& reading) {
    for (const ScoreTarget& target : canvases_[index].targets) {
      const int32_t token = request_.continuations[target.continuation][target.offset];
      const int64_t position = prompt + static_cast<int64_t>(target.offset);
      answers_[index].tokens.push_back(
          score_of(reading.logits(position), token, alternatives ? request_.options.top : 0, no_text_));
      answers_[index].best.push_back(reading.best(position) == token);
    }
  });
}

ScoreResult CanvasScore::finish() {
  ScoreResult result{empty_scores(request_), static_cast<int64_t>(canvases_.size()), lanes_.rows()};
  struct Place {
    int64_t order;
    size_t canvas, target;
  };
  std::vector<Place> places;
  for (size_t c = 0; c < canvases_.size(); ++c)
    for (size_t t = 0; t < canvases_[c].targets.size(); ++t) places.push_back({canvases_[c].targets[t].order, c, t});
  std::ranges::stable_sort(places, {}, &Place::order);
  for (const auto& [order, c, t] : places) {
    const ScoreTarget& target = canvases_[c].targets[t];
    ContinuationScore& score = result.continuations[target.continuation];
    TokenScore& token = score.tokens[target.offset];
    token.log_probability += target.weight * answers_[c].tokens[t].log_probability;
    token.top = std::move(answers_[c].tokens[t].top);
    if (score.greedy && !answers_[c].best[t]) score.greedy = false;
  }
  for (ContinuationScore& score : result.continuations)
    for (const TokenScore& token : score.tokens) score.log_probability += token.log_probability;
  return result;
}

DuelScore::DuelScore(std::shared_ptr<const Model> model, const ScoreRequest& request)
    : model_(std::move(model)), request_(request), no_text_(rows_without_text(*model_)) {
  result_.continuations = empty_scores(request);
}

Result<std::unique_ptr<ScoreJob>> DuelScore::create(std::shared_ptr<const Model> model, const ScoreRequest& request) {
  std::unique_ptr<DuelScore> score(new DuelScore(std::move(model), request));
  // Every continuation once, so that none is refused after hours.
  for (; !score->done(); ++score->at_) {
    LLADA_TRY_STATUS(score->begin());
    if (score->done()) break;
  }
  score->at_ = 0;
  LLADA_TRY_STATUS(score->begin());
  return score;
}

Status DuelScore::begin() {
  while (!done() && request_.continuations[at_].empty()) ++at_;
  if (done()) return {};
  const decode::SpecialIds& ids = model_->special_ids();
  const std::vector<int32_t>& text = request_.continuations[at_];
  decode::DecodeOptions order = request_.options.order;
  order.gen_length = std::ssize(text), order.auto_length = false;
  order.early_stop = decode::EarlyStop::none;
  decode::Canvas canvas = {.tokens = request_.prompt, .states = {}, .mask_id = ids.mask};
  canvas.states.assign(request_.prompt.size(), TokenState::fixed);
  canvas.tokens.insert(canvas.tokens.end(), text.size(), ids.mask);
  canvas.states.insert(canvas.states.end(), text.size(), TokenState::masked);
  const int64_t positions = canvas.size();
  LLADA_TRY(std::shared_ptr<decode::Strategy> strategy, decode::make_strategy(order, ids, canvas));
  denoiser_ = std::make_unique<decode::Denoiser>(std::move(canvas), std::move(strategy));
  std::vector<int32_t> whole = request_.prompt;
  whole.insert(whole.end(), text.begin(), text.end());
  denoiser_->follow(std::move(whole));
  if (device_ == nullptr) return {};
  LLADA_TRY(state_, keeping_logits(*model_, *device_, positions, order.cfg_scale > 0, text_rule(*model_, order)));
  return {};
}

Status DuelScore::allocate(Device& device, PrefixCache* /*prefixes*/) {
  device_ = &device;
  return begin();
}

Status DuelScore::take(RequestStep& step, double /*device_seconds*/, PrefixCache* /*prefixes*/) {
  ContinuationScore& score = result_.continuations[at_];
  LLADA_TRY(const decode::StepEvent event, denoiser_->take(std::move(step.result)));
  ++result_.forwards, result_.rows += decode::rows_of(event.plan);
  for (const decode::Edit& edit : event.edits) {
    const int32_t row = model_->special_ids().row_of(edit.position);
    const auto found = std::ranges::lower_bound(event.predictions, row, {}, &decode::Prediction::position);
    if (found == event.predictions.end() || found->position != row)
      return failed("score: position {} was decided without a prediction", edit.position);
    const auto at = static_cast<size_t>(found - event.predictions.begin());
    score.tokens[static_cast<size_t>(edit.position) - request_.prompt.size()] = score_of(
        logits_row(step.state->logits, at, model_->config().vocab), edit.token, request_.options.top, no_text_);
    if (found->token != edit.token) score.greedy = false;
  }
  if (!denoiser_->done()) return {};
  for (const TokenScore& token : score.tokens) score.log_probability += token.log_probability;
  ++at_;
  return begin();
}

}  // namespace llada
