#include "engine/canvas_lanes.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "decode/canvas.h"
#include "decode/decided_first.h"
#include "decode/strategy.h"
#include "engine/text_rows.h"
#include "engine/token_score.h"

namespace llada {

size_t CanvasReading::index(int64_t position) const {
  const std::vector<int32_t>& rows = event_.plan.logits;
  return static_cast<size_t>(std::ranges::lower_bound(rows, model_.special_ids().row_of(position)) - rows.begin());
}

std::span<const float> CanvasReading::logits(int64_t position) const {
  return logits_row(logits_, index(position), model_.config().vocab);
}

int32_t CanvasReading::best(int64_t position) const { return event_.predictions[index(position)].token; }

int64_t lanes_at_once(int64_t canvas_rows, int64_t rows) {
  return std::max<int64_t>(rows / std::max<int64_t>(canvas_rows, 1), 1);
}

CanvasLanes::CanvasLanes(std::shared_ptr<const Model> model, Setup setup)
    : model_(std::move(model)), setup_(std::move(setup)) {}

int64_t CanvasLanes::rows_of(int64_t positions) const { return positions * (setup_.cfg_scale > 0 ? 2 : 1); }

Status CanvasLanes::add_lane() {
  LLADA_TRY(auto state,
            RequestState::create(*model_, *device_, setup_.positions, setup_.cfg_scale > 0, text_rule(*model_, {})));
  state.keep_logits = state.every_row = true;
  auto lane = std::make_unique<Lane>(std::move(state));
  if (const auto shared = static_cast<int64_t>(setup_.shared.size()); prefix_there_ && !lanes_.empty() && shared > 0) {
    const KvStore& first = lanes_.front()->state.kv;
    std::vector<std::byte> copy(static_cast<size_t>(first.sequence_bytes(shared)));
    first.read(0, 0, shared, copy.data());
    lane->state.kv.write(0, 0, shared, copy.data());
    lane->stored = setup_.shared;
  }
  lanes_.push_back(std::move(lane));
  return {};
}

Status CanvasLanes::allocate(Device& device, PrefixCache* prefixes) {
  device_ = &device;
  if (setup_.canvases == 0) return {};
  LLADA_TRY_STATUS(add_lane());
  if (prefixes == nullptr || setup_.shared.empty() || model_->special_ids().prefix_unit() == 0) return {};
  Lane& first = *lanes_.front();
  cursor_ = prefixes->begin(model_, first.state.kv.shape(), model_->special_ids().prefix_unit());
  const int64_t found = prefixes->fill(*cursor_, setup_.shared, first.state.kv);
  first.stored.assign(setup_.shared.begin(), setup_.shared.begin() + found);
  prefix_there_ = first.stored.size() == setup_.shared.size();
  return {};
}

void CanvasLanes::lay(Lane& lane, size_t index) {
  const decode::SpecialIds& ids = model_->special_ids();
  FixedCanvas canvas = setup_.canvas(index);
  std::vector<int32_t>& tokens = canvas.tokens;
  decode::StepPlan plan;
  for (const int32_t position : canvas.positions) plan.logits.push_back(ids.row_of(position));
  std::ranges::sort(plan.logits);
  plan.logits.erase(std::ranges::unique(plan.logits).begin(), plan.logits.end());
  const decode::SpecialIds behind = ids.behind(canvas.prompt);
  // K/V that depends on nothing behind it is equal where tokens are equal.
  const int64_t same = std::ranges::mismatch(lane.stored, tokens).in1 - lane.stored.begin();
  int64_t begin = behind.final_before(std::min<int64_t>(same, plan.logits.front()));
  plan.block_origin = static_cast<int32_t>(ids.causal_text || ids.decided_first ? 0 : behind.block_origin);
  if (ids.causal_text) {
    plan.causal_below = static_cast<int32_t>(behind.block_begin(canvas.positions.front()));
    begin = std::min<int64_t>(begin, plan.causal_below);
  }
  if (canvas.first) reused_ += std::min(begin, canvas.prompt);
  const auto compute = [&](decode::StepPlan& some, int64_t from, int64_t to) {
    some.rows.resize(static_cast<size_t>(to - from));
    std::iota(some.rows.begin(), some.rows.end(), static_cast<int32_t>(from));
    some.inputs.assign(tokens.begin() + from, tokens.begin() + to);
    some.keys = static_cast<int32_t>(to);
  };
  std::vector<decode::StepPlan> plans;
  if (ids.uniform.length > 0 && begin < canvas.prompt) {
    compute(plans.emplace_back(), begin, canvas.prompt);
    plans.back().encode = true;
  }
  compute(plan, ids.uniform.length > 0 ? canvas.prompt : begin, std::ssize(tokens));
  plan.cfg_scale = setup_.cfg_scale;
  if (plan.cfg_scale > 0) {
    plan.unconditional = plan.inputs;
    for (size_t i = 0; i < plan.rows.size() && plan.rows[i] < canvas.prompt; ++i) plan.unconditional[i] = ids.mask;
  }
  plan.block_begin = static_cast<int32_t>(canvas.prompt), plan.block_end = plan.keys;
  decode::Canvas laid = decode::fixed_canvas(tokens);
  laid.mask_id = ids.mask;
  if (ids.decided_first) plan.places = decode::decided_first_places(canvas.decided, begin);
  // K/V that was not read causally is not the finished text's.
  size_t finished = tokens.size();
  if (ids.causal_text) finished = static_cast<size_t>(plan.causal_below);
  if (ids.decided_first)
    finished = static_cast<size_t>(std::ranges::find(canvas.decided, false) - canvas.decided.begin());
  plans.push_back(std::move(plan));
  lane.rows = 0;
  for (const decode::StepPlan& one : plans) lane.rows = std::max(lane.rows, decode::rows_of(one));
  lane.denoiser = std::make_unique<decode::Denoiser>(std::move(laid), decode::planned_forwards(std::move(plans)));
  tokens.resize(finished);
  lane.stored = setup_.in_order ? std::move(tokens) : setup_.shared;
  lane.canvas = index;
}

int64_t CanvasLanes::most_lanes(int64_t rows) const {
  const auto shared = static_cast<int64_t>(setup_.shared.size());
  if (setup_.in_order || (shared > 0 && !prefix_there_)) return 1;
  const int64_t most = lanes_at_once(rows_of(setup_.positions - shared), rows);
  return shared > 0 ? std::min(most, kMostLanesWithPrefix) : most;
}

std::vector<RequestStep> CanvasLanes::steps(int64_t rows) {
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
  const int64_t there = prefix_there_ ? static_cast<int64_t>(setup_.shared.size()) : 0, most = most_lanes(rows);
  while (next_ < setup_.canvases && fits(rows_of(setup_.size(next_) - there))) {
    auto idle = std::ranges::find_if(lanes_, [](const auto& lane) { return !lane->canvas; });
    if (idle == lanes_.end()) {
      if (std::ssize(lanes_) >= most || !add_lane()) break;  // fewer at a time where memory for more is not there
      idle = std::prev(lanes_.end());
    }
    lay(**idle, next_++);
    add(*idle);
  }
  return steps;
}

Status CanvasLanes::take(RequestStep& step, PrefixCache* prefixes,
                         const std::function<void(size_t canvas, const CanvasReading& reading)>& read) {
  const auto lane = std::ranges::find(lanes_, step.state, [](const auto& l) { return &l->state; });
  LLADA_TRY(const decode::StepEvent event, step.denoiser->take(std::move(step.result)));
  ++forwards_;
  if (!step.denoiser->done()) return {};  // the prompt alone
  const size_t index = *std::exchange((*lane)->canvas, std::nullopt);
  read(index, CanvasReading(*model_, event, step.state->logits));
  rows_ += step.denoiser->stats().rows;
  ++taken_;
  if (!prefix_there_ && !setup_.shared.empty()) {  // by the only lane that there is
    prefix_there_ = true;
    if (cursor_ && prefixes != nullptr) prefixes->publish(*cursor_, setup_.shared, step.state->kv);
  }
  return {};
}

}  // namespace llada
