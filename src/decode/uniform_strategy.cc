#include "decode/uniform_strategy.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "decode/acceptance.h"
#include "decode/answer.h"
#include "decode/canvas.h"
#include "decode/uniform_canvas.h"

namespace llada::decode {

UniformStrategy::UniformStrategy(const DecodeOptions& options, const SpecialIds& ids, const Canvas& canvas,
                                 std::unique_ptr<FormKeeper> keeper)
    : ids_(ids),
      options_(options),
      keeper_(std::move(keeper)),
      scale_(samples(options) ? options.temperature : 1),
      entropy_bound_(options.entropy_bound),
      seed_(options.seed),
      to_the_end_(options.early_stop == EarlyStop::none),
      begin_(static_cast<int32_t>(generated_begin(canvas))),
      canvases_((canvas.size() - begin_ + ids.uniform.length - 1) / ids.uniform.length),
      canvas_(begin_) {
  LLADA_CHECK(ids.uniform.holding(canvas.size() - begin_) == canvas.size() - begin_);
}

int32_t UniformStrategy::canvas_end(const Canvas& canvas) const {
  return static_cast<int32_t>(std::min<int64_t>(canvas_ + ids_.uniform.length, canvas.size()));
}

double UniformStrategy::temperature() const {
  constexpr double kLeast = 1e-30;  // draws the best token; below it quotients overflow a float
  const double left = static_cast<double>(options_.denoising_steps - step_);
  const double share = left / static_cast<double>(options_.denoising_steps);
  return std::max(kLeast, scale_ * (ids_.uniform.t_min + (ids_.uniform.t_max - ids_.uniform.t_min) * share));
}

// For the next forward; but: indices in the canvas, ascending, that stay.
void UniformStrategy::fill_with_random(std::span<const size_t> but) {
  for (size_t i = 0; i < current_.size(); ++i)
    if (!std::ranges::binary_search(but, i))
      current_[i] = random_token(seed_, forward_, canvas_ + static_cast<int64_t>(i), ids_.vocab);
}

StepPlan UniformStrategy::plan(const Canvas& canvas) {
  StepPlan plan;
  plan.block_begin = canvas_;
  plan.block_end = canvas_end(canvas);
  plan.encode = encoded_ < canvas_;
  plan.rows.resize(static_cast<size_t>(plan.encode ? canvas_ - encoded_ : plan.block_end - canvas_));
  std::iota(plan.rows.begin(), plan.rows.end(), plan.encode ? encoded_ : canvas_);
  plan.keys = plan.rows.back() + 1;
  if (plan.encode) {
    plan.inputs = tokens_at(canvas, plan.rows);
    encoded_ = canvas_;
    return plan;
  }
  if (current_.empty()) {
    current_.resize(plan.rows.size());
    fill_with_random({});
  }
  for (size_t i = 0; i < current_.size(); ++i)
    if (given(canvas, i)) current_[i] = canvas.tokens[static_cast<size_t>(canvas_) + i];
  plan.inputs = current_;
  plan.logits = plan.rows;
  plan.temperature = temperature();
  plan.conditioned = step_ > 0;
  for (const int32_t position : plan.rows) plan.draws.push_back(token_draw(seed_, forward_, position));
  return plan;
}

// Whether a position of the canvas is decided before it is: by a form.
bool UniformStrategy::given(const Canvas& canvas, size_t i) const {
  return canvas.states[static_cast<size_t>(canvas_) + i] == TokenState::stable;
}

// The canvas after this step: the best tokens, or those of the best sequence that fits behind the committed text.
std::vector<Prediction> UniformStrategy::best_of(const Canvas& canvas, const StepResult& result) {
  std::vector<Prediction> best = result.predictions;
  if (keeper_ == nullptr) return best;
  Canvas settled = canvas;  // accepted tokens may go again
  std::vector<int32_t> open;
  for (size_t i = 0; i < best.size(); ++i) {
    const auto p = static_cast<size_t>(canvas_) + i;
    if (given(canvas, i)) {
      best[i].token = canvas.tokens[p], best[i].entropy = 0;
      continue;
    }
    settled.states[p] = TokenState::masked;
    open.push_back(static_cast<int32_t>(p));
  }
  for (const Prediction& p : keeper_->predict(settled, open, result, forward_))
    best[static_cast<size_t>(p.position - canvas_)] = p;
  return best;
}

// Whether the canvas is done with these best tokens, which are remembered.
bool UniformStrategy::stops(std::span<const Prediction> predictions) {
  std::vector<int32_t> best;
  double entropy = 0;
  for (const Prediction& p : predictions) best.push_back(p.token), entropy += p.entropy;
  const auto wanted = static_cast<size_t>(ids_.uniform.stability_threshold);
  const bool stable =
      history_.size() >= wanted && std::ranges::all_of(history_, [&](const auto& b) { return b == best; });
  history_.push_back(std::move(best));
  if (history_.size() > wanted) history_.erase(history_.begin());
  return stable && entropy < options_.confidence_threshold * static_cast<double>(predictions.size());
}

std::vector<Edit> UniformStrategy::accept(const Canvas& canvas, const StepResult& result) {
  if (result.predictions.empty()) return {};  // of an encoded prompt
  std::vector<Edit> edits;
  const std::vector<Prediction> best = best_of(canvas, result);
  ++step_, ++forward_;
  if (stops(best) || step_ == options_.denoising_steps) {
    for (size_t i = 0; i < best.size(); ++i)
      if (!given(canvas, i))
        edits.push_back({best[i].position, best[i].token, TokenState::stable, best[i].probability});
    canvas_ = canvas_end(canvas);
    step_ = 0;
    current_.clear();
    history_.clear();
    return edits;
  }
  std::vector<Candidate> candidates;
  for (const Prediction& p : best) candidates.push_back({.position = p.position, .entropy = p.entropy});
  const std::vector<size_t> accepted = accept_entropy(candidates, entropy_bound_);
  for (const size_t i : accepted) current_[i] = keeper_ == nullptr ? result.drawn[i] : best[i].token;
  fill_with_random(accepted);
  for (size_t i = 0; i < current_.size(); ++i) {
    if (given(canvas, i)) continue;
    const bool kept = std::ranges::binary_search(accepted, i);
    const int32_t position = canvas_ + static_cast<int32_t>(i);
    const TokenState state = kept ? TokenState::visible : TokenState::masked;
    const Prediction& p = best[i];
    if (canvas.tokens[static_cast<size_t>(position)] != current_[i] ||
        canvas.states[static_cast<size_t>(position)] != state)
      edits.push_back({position, current_[i], state, kept && p.token == current_[i] ? p.probability : 0});
  }
  return edits;
}

bool UniformStrategy::done(const Canvas& canvas) const {
  if (canvas_ == canvas.size()) return true;
  return !to_the_end_ && first_end(canvas, begin_, canvas_, ids_.end_ids) < canvas_;
}

int64_t UniformStrategy::step_bound() const { return canvases_ * (options_.denoising_steps + 1); }

}  // namespace llada::decode
