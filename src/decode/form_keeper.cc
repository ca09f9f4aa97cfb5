#include "decode/form_keeper.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "decode/canvas.h"
#include "decode/options.h"

namespace llada::decode {
namespace {

constexpr int64_t kMostWhole = 10'000'000;  // edges and classes, of a stretch that one call looks at as a whole
constexpr int64_t kMostRevising = 8 * forms::Solver::kStepWork;  // of a step's changes of decided tokens
constexpr int64_t kMostGap = 100'000'000;  // states and positions of a gap that is filled exactly, once a request

// The divisor of logits before a rule looks at their distribution.
double confidence_heat(const DecodeOptions& options) { return orders_by_sampled(options) ? options.temperature : 1; }

}  // namespace

// As sure as the model is of the token both among the texts that fit and among all, which the row says of a token of
// its own. Among few texts that fit one looks certain long before the text that it depends on is decided: 62 of
// 100 questions with yes or no were right by the first alone, and 84 by both (docs/lab/forms.md).
Prediction FormKeeper::prediction_of(const forms::Chosen& chosen, int32_t position, const Prediction& row) const {
  double among_all = 1;
  const bool read = row.probability > 0 && ids_.uniform.length == 0;  // a random canvas stops by the texts that fit
  if (read) among_all = row.probability * std::exp((double{chosen.logit} - double{row.logit}) / heat_);
  const double probability = std::min(chosen.probability, among_all);
  return {.position = position,
          .token = chosen.token,
          .logit = chosen.logit,
          .probability = probability,
          .entropy = read ? std::max(chosen.entropy, row.entropy) : chosen.entropy,
          .margin = std::min(chosen.margin, probability),
          .runner_up = chosen.runner_up};
}

FormKeeper::FormKeeper(std::shared_ptr<const forms::TokenForm> form, const DecodeOptions& options,
                       const SpecialIds& ids, const Canvas& canvas)
    : form_(std::move(form)),
      ids_(ids),
      sampled_(samples(options)),
      fixed_noise_(draws_once(options)),
      revised_(options.revision != Revision::none || ids.uniform.length > 0),
      heat_(confidence_heat(options)),
      seed_(options.seed),
      key_(form_of(options) ? forms::key_of(form_of(options)->kind) : "form"),
      solver_(form_, canvas.infill, ids.uniform.length > 0 ? kMostWhole : forms::Solver::kStepWork) {
  int64_t begin = -1;
  for (int64_t p = 0; p <= canvas.answer_end(); ++p) {
    const bool open = p < canvas.answer_end() && canvas.states[static_cast<size_t>(p)] != TokenState::fixed;
    if (open && begin < 0) begin = p;
    if (!open && begin >= 0) stretches_.push_back({std::exchange(begin, -1), p});
  }
}

FormKeeper::Stretch* FormKeeper::stretch_of(int64_t position) {
  const auto found =
      std::ranges::find_if(stretches_, [&](const Stretch& s) { return s.begin <= position && position < s.end; });
  return found == stretches_.end() ? nullptr : &*found;
}

std::vector<forms::Slot> FormKeeper::slots(const Canvas& canvas, const Stretch& stretch) const {
  std::vector<forms::Slot> slots(static_cast<size_t>(stretch.end - stretch.begin));
  for (size_t i = 0; i < slots.size(); ++i)
    if (const auto p = static_cast<size_t>(stretch.begin) + i; canvas.states[p] != TokenState::masked)
      slots[i].token = canvas.tokens[p];
  return slots;
}

Status FormKeeper::check(const Canvas& canvas) {
  for (const Stretch& stretch : stretches_) {
    const int64_t length = stretch.end - stretch.begin;
    // A canvas that may have decided tokens behind undecided ones, or none decided before the end, is looked at as a
    // whole.
    if (revised_ && solver_.work_of(length, kMostWhole) > kMostWhole)
      return invalid(
          "{}: found a form that takes over {} steps for {} tokens that may be revised, needed a smaller one", key_,
          kMostWhole, length);
    if (canvas.infill && form_->edges_of_all() * length > kMostGap)
      return invalid("{}: found a form of {} transitions for a gap of {} tokens, needed {} at most", key_,
                     form_->edges_of_all(), length, kMostGap / length);
  }
  for (Stretch& stretch : stretches_) {
    if (solver_.fits(slots(canvas, stretch), stretch.track)) continue;
    const int64_t length = stretch.end - stretch.begin;
    const int64_t needed = solver_.shortest();
    if (!canvas.infill) return invalid("gen_length: found {}, needed {} at least for {}", length, needed, key_);
    return invalid("{}: found a gap of {} tokens at position {}; needed {}{}", key_, length, stretch.begin, needed,
                   length < needed ? " at least" : ", or another number that it can fill");
  }
  return {};
}

std::vector<Edit> FormKeeper::fixed(const Canvas& canvas, int64_t end) {
  std::vector<Edit> edits;
  for (Stretch& stretch : stretches_) {
    std::vector<forms::Slot> all = slots(canvas, stretch);
    const std::vector<forms::Slot> before = all;
    if (std::ranges::none_of(all, [](const forms::Slot& s) { return s.token < 0; })) continue;
    solver_.write_fixed(all, stretch.track);
    const auto count = static_cast<size_t>(std::clamp<int64_t>(end - stretch.begin, 0, std::ssize(all)));
    if (std::any_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count),
                    [](const forms::Slot& s) { return s.token < 0; })) {
      const std::vector<int32_t> only = solver_.fixed(all, count, stretch.track);
      for (size_t i = 0; i < only.size(); ++i)
        if (only[i] >= 0) all[i].token = only[i];
    }
    for (size_t i = 0; i < all.size(); ++i)
      if (before[i].token < 0 && all[i].token >= 0)
        edits.push_back({.position = static_cast<int32_t>(stretch.begin) + static_cast<int32_t>(i),
                         .token = all[i].token,
                         .state = TokenState::stable,
                         .confidence = 1,
                         .by_form = true});
  }
  return edits;
}

std::vector<Prediction> FormKeeper::predict(const Canvas& canvas, std::span<const int32_t> positions,
                                            const StepResult& result, int64_t forward) {
  begun_ = solver_.work();
  std::vector<Prediction> out;
  const auto row_at = [&](int32_t position) {
    return std::ranges::lower_bound(result.predictions, ids_.row_of(position), {}, &Prediction::position) -
           result.predictions.begin();
  };
  for (size_t i = 0; i < positions.size();) {
    Stretch* stretch = stretch_of(positions[i]);
    if (stretch == nullptr) {
      out.push_back(result.predictions[static_cast<size_t>(row_at(positions[i]))]);
      out.back().position = positions[i++];
      continue;
    }
    std::vector<forms::Slot> all = slots(canvas, *stretch);
    for (; i < positions.size() && positions[i] < stretch->end; ++i)
      all[static_cast<size_t>(positions[i] - stretch->begin)].scores =
          &result.scores[static_cast<size_t>(row_at(positions[i]))];
    const auto path = solver_.solve(all, stretch->track,
                                    {.sampled = sampled_,
                                     .seed = seed_,
                                     .forward = static_cast<uint64_t>(fixed_noise_ ? 0 : forward),
                                     .first_position = stretch->begin});
    for (const forms::Chosen& chosen : path) {
      const int32_t position = static_cast<int32_t>(stretch->begin) + chosen.slot;
      out.push_back(prediction_of(chosen, position, result.predictions[static_cast<size_t>(row_at(position))]));
    }
  }
  return out;
}

Prediction FormKeeper::predict_again(const Canvas& canvas, int32_t position, const Prediction& seen,
                                     const RowScores& scores) {
  Stretch* stretch = stretch_of(position);
  if (stretch == nullptr) return seen;
  if (solver_.work() - begun_ > kMostRevising) {  // it stays as it is
    Prediction same = seen;
    same.token = canvas.tokens[static_cast<size_t>(position)], same.probability = 1;
    return same;
  }
  std::vector<forms::Slot> all = slots(canvas, *stretch);
  all[static_cast<size_t>(position - stretch->begin)] = {-1, &scores};
  const auto path = solver_.solve(all, stretch->track,
                                  {.sampled = sampled_, .seed = seed_, .forward = 0, .first_position = stretch->begin});
  return path.empty() ? seen : prediction_of(path.front(), position, seen);
}

void FormKeeper::keep(const Canvas& canvas, std::vector<Edit>& edits) {
  const auto replaces = [&](const Edit& edit) {
    return !canvas.is_undecided(edit.position) && edit.state != TokenState::masked &&
           edit.token != canvas.tokens[static_cast<size_t>(edit.position)];
  };
  if (std::ranges::none_of(edits, replaces)) return;
  Canvas after = canvas;
  const auto apply = [&](const Edit& edit) {
    after.tokens[static_cast<size_t>(edit.position)] = edit.token;
    after.states[static_cast<size_t>(edit.position)] = edit.state;
  };
  for (const Edit& edit : edits)
    if (!replaces(edit)) apply(edit);
  for (Edit& edit : edits) {
    if (!replaces(edit)) continue;
    Stretch* stretch = stretch_of(edit.position);
    const int32_t old = canvas.tokens[static_cast<size_t>(edit.position)];
    apply(edit);
    const bool looked_at = solver_.work() - begun_ <= 2 * kMostRevising;
    if (stretch == nullptr || (looked_at && solver_.fits(slots(after, *stretch), stretch->track))) continue;
    edit.token = old;
    apply(edit);
  }
}

void FormKeeper::mark(const Canvas& after, std::vector<Edit>& edits) {
  for (Stretch& stretch : stretches_) {
    const std::span<const int32_t> states = solver_.walk(slots(after, stretch), stretch.track);
    for (Edit& edit : edits) {
      const int64_t at = edit.position - stretch.begin;
      if (at < 0 || at + 1 >= std::ssize(states) || states[static_cast<size_t>(at)] < 0) continue;
      const auto ways = form_->edges(states[static_cast<size_t>(at)]);
      edit.by_form |= ways.size() == 1 && form_->only_token(ways[0].set) >= 0;
    }
  }
}

Status begin_form(std::shared_ptr<const forms::TokenForm> form, const DecodeOptions& options, const SpecialIds& ids,
                  Canvas& canvas) {
  FormKeeper keeper(std::move(form), options, ids, canvas);
  LLADA_TRY_STATUS(keeper.check(canvas));
  for (const Edit& edit : keeper.fixed(canvas, 0)) {
    canvas.tokens[static_cast<size_t>(edit.position)] = edit.token;
    canvas.states[static_cast<size_t>(edit.position)] = edit.state;
  }
  return {};
}

ClassReading class_reading(const forms::TokenForm& form, const DecodeOptions& options) {
  return {.classes = &form.classes(),
          .temperature = orders_by_sampled(options) ? 1 : options.temperature,
          .confidence_heat = confidence_heat(options)};
}

}  // namespace llada::decode
