#include "engine/score_jobs.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "decode/canvas.h"
#include "decode/denoiser.h"

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
  state.keep_logits = true;
  return state;
}

size_t index_in(std::span<const int32_t> ascending, int32_t value) {
  return static_cast<size_t>(std::ranges::lower_bound(ascending, value) - ascending.begin());
}

}  // namespace

int64_t score_lanes(const Model& model, int64_t canvas_rows, int64_t rows) {
  return model.special_ids().attention_block > 0 ? 1 : std::max<int64_t>(rows / std::max<int64_t>(canvas_rows, 1), 1);
}

CanvasScore::CanvasScore(std::shared_ptr<const Model> model, const ScoreRequest& request)
    : model_(std::move(model)),
      request_(request),
      canvases_(score_canvases(request, model_->special_ids())),
      answers_(canvases_.size()) {
  for (const ScoreCanvas& canvas : canvases_) positions_ = std::max(positions_, canvas.end);
}

Status CanvasScore::add_lane() {
  LLADA_TRY(auto state, keeping_logits(*model_, *device_, positions_, request_.options.cfg_scale > 0,
                                       decode::head_rule({}, model_->special_ids())));
  lanes_.push_back(std::make_unique<Lane>(std::move(state)));
  return {};
}

Status CanvasScore::allocate(Device& device, PrefixCache* /*prefixes*/) {
  device_ = &device;
  return canvases_.empty() ? Status() : add_lane();
}

int64_t CanvasScore::rows_of_next() const {
  return next_ < canvases_.size() ? canvases_[next_].end * (request_.options.cfg_scale > 0 ? 2 : 1) : 0;
}

void CanvasScore::lay(Lane& lane, size_t index) const {
  const decode::SpecialIds& ids = model_->special_ids();
  const ScoreCanvas& canvas = canvases_[index];
  std::vector<int32_t> tokens = canvas.tokens(request_, ids.mask);
  decode::StepPlan plan;
  const auto prompt = static_cast<int64_t>(request_.prompt.size());
  for (const ScoreTarget& target : canvas.targets)
    plan.logits.push_back(ids.row_of(prompt + static_cast<int64_t>(target.offset)));
  std::ranges::sort(plan.logits);
  plan.logits.erase(std::ranges::unique(plan.logits).begin(), plan.logits.end());
  int64_t begin = 0;
  if (const int64_t block = ids.attention_block; block > 0) {
    // K/V of a block depends on nothing behind it, so equal tokens have left equal K/V.
    const int64_t same = std::ranges::mismatch(lane.stored, tokens).in1 - lane.stored.begin();
    begin = std::min<int64_t>(same, plan.logits.front()) / block * block;
  }
  plan.rows.resize(tokens.size() - static_cast<size_t>(begin));
  std::iota(plan.rows.begin(), plan.rows.end(), static_cast<int32_t>(begin));
  plan.inputs.assign(tokens.begin() + begin, tokens.end());
  plan.keys = static_cast<int32_t>(tokens.size());
  plan.cfg_scale = request_.options.cfg_scale;
  if (plan.cfg_scale > 0) {
    plan.unconditional = plan.inputs;
    for (size_t i = 0; i < plan.rows.size() && plan.rows[i] < prompt; ++i) plan.unconditional[i] = ids.mask;
  }
  plan.block_begin = static_cast<int32_t>(prompt), plan.block_end = plan.keys;
  decode::Canvas laid = decode::fixed_canvas(tokens);
  laid.mask_id = ids.mask;
  lane.rows = decode::rows_of(plan);
  lane.denoiser = std::make_unique<decode::Denoiser>(std::move(laid), decode::one_forward(std::move(plan)));
  lane.stored = std::move(tokens);
  lane.canvas = index;
}

std::vector<RequestStep> CanvasScore::steps(int64_t rows) {
  std::vector<RequestStep> steps;
  int64_t total = 0;
  const auto fits = [&](int64_t more) { return steps.empty() || total + more <= rows; };
  const auto add = [&](const std::unique_ptr<Lane>& lane) {
    total += lane->rows;
    steps.push_back({lane->denoiser.get(), &lane->state});
  };
  // Those that are laid come first, whichever lanes they are in: `rows` was larger perhaps when they were laid.
  for (const auto& lane : lanes_)
    if (lane->canvas && fits(lane->rows)) add(lane);
  const int64_t lanes = score_lanes(*model_, positions_ * (request_.options.cfg_scale > 0 ? 2 : 1), rows);
  while (next_ < canvases_.size() && fits(rows_of_next())) {
    auto idle = std::ranges::find_if(lanes_, [](const auto& lane) { return !lane->canvas; });
    if (idle == lanes_.end()) {
      if (std::ssize(lanes_) >= lanes || !add_lane()) break;  // fewer at a time where memory for more is not there
      idle = std::prev(lanes_.end());
    }
    lay(**idle, next_++);
    add(*idle);
  }
  return steps;
}

Status CanvasScore::take(RequestStep& step, double /*device_seconds*/, PrefixCache* /*prefixes*/) {
  const auto lane = std::ranges::find(lanes_, step.state, [](const auto& l) { return &l->state; });
  const size_t index = *std::exchange((*lane)->canvas, std::nullopt);
  LLADA_TRY(const decode::StepEvent event, step.denoiser->take(std::move(step.result)));
  const auto prompt = static_cast<int64_t>(request_.prompt.size());
  const bool alternatives = request_.options.method != ScoreMethod::monte_carlo;
  for (const ScoreTarget& target : canvases_[index].targets) {
    const int32_t token = request_.continuations[target.continuation][target.offset];
    const int32_t row = model_->special_ids().row_of(prompt + static_cast<int64_t>(target.offset));
    const size_t at = index_in(event.plan.logits, row);
    answers_[index].tokens.push_back(score_of(logits_row(step.state->logits, at, model_->config().vocab), token,
                                              alternatives ? request_.options.top : 0));
    answers_[index].best.push_back(event.predictions[at].token == token);
  }
  rows_ += step.denoiser->stats().rows;
  ++taken_;
  return {};
}

ScoreResult CanvasScore::finish() {
  ScoreResult result{empty_scores(request_), static_cast<int64_t>(canvases_.size()), rows_};
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
    : model_(std::move(model)), request_(request) {
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
  LLADA_TRY(state_, keeping_logits(*model_, *device_, positions, order.cfg_scale > 0, decode::head_rule(order, ids)));
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
    score.tokens[static_cast<size_t>(edit.position) - request_.prompt.size()] =
        score_of(logits_row(step.state->logits, at, model_->config().vocab), edit.token, request_.options.top);
    if (found->token != edit.token) score.greedy = false;
  }
  if (!denoiser_->done()) return {};
  for (const TokenScore& token : score.tokens) score.log_probability += token.log_probability;
  ++at_;
  return begin();
}

}  // namespace llada
