#include "decode/rivals.h"

#include <algorithm>
#include <cmath>

namespace llada::decode {
namespace {

int64_t masks_in(const Canvas& canvas, const Block& block) {
  return std::count(canvas.states.begin() + block.begin, canvas.states.begin() + block.end, TokenState::masked);
}

// What a trial's prediction gives to one token.
double probability_of(const Prediction& p, int32_t token) {
  if (p.token == token) return p.probability;
  return p.runner_up == token ? p.probability - p.margin : 0;
}

}  // namespace

Look Wino::look(const Canvas& canvas, const Block& block) {
  if (last_ <= 1) return {};  // nothing may be put back after a single commit
  return {.trials = visible_in(canvas, block), .peeks = {}};
}

void Wino::merge(const Canvas& canvas, const Block& block, std::span<const Prediction> seen, std::vector<Edit>& edits) {
  const double left = static_cast<double>(masks_in(canvas, block));
  const auto cap = static_cast<size_t>(std::min(std::max(std::floor(0.7 * left), 5.0), 20.0));
  if (edits.size() > cap) {
    std::ranges::stable_sort(edits, [](const Edit& a, const Edit& b) { return a.confidence > b.confidence; });
    edits.resize(cap);
    std::ranges::sort(edits, {}, &Edit::position);
  }
  const auto committed = static_cast<int64_t>(edits.size());
  made_ += static_cast<int64_t>(seen.size());
  if (committed > 1) {
    std::vector<std::pair<double, int32_t>> unsupported;
    for (const Prediction& p : seen) {
      const double back = probability_of(p, canvas.tokens[static_cast<size_t>(p.position)]);
      if (back < back_) unsupported.emplace_back(back, p.position);
    }
    std::ranges::sort(unsupported);
    unsupported.resize(std::min(unsupported.size(), static_cast<size_t>(last_ - 1)));
    for (const auto& [back, position] : unsupported) put(edits, {position, canvas.mask_id, TokenState::masked, back});
    changed_ += static_cast<int64_t>(unsupported.size());
  }
  last_ = committed;
  settle_finished(canvas, block, edits);
}

Look TokenEditing::look(const Canvas& canvas, const Block& block) {
  return {.trials = {}, .peeks = visible_in(canvas, block)};
}

void TokenEditing::merge(const Canvas& canvas, const Block& block, std::span<const Prediction> seen,
                         std::vector<Edit>& edits) {
  const bool alone = masks_in(canvas, block) == 0;
  // The last step that only edits leaves nothing open.
  const bool may_mask = masks_ && (!alone || alone_ + 1 < most_);
  bool changed = false;
  for (const Prediction& p : seen) {
    ++made_;
    if (p.token == canvas.tokens[static_cast<size_t>(p.position)] || !(p.probability > threshold_)) continue;
    ++changed_;
    changed = true;
    if (may_mask && masked_.insert(p.position).second)
      put(edits, {p.position, canvas.mask_id, TokenState::masked, p.probability});
    else
      put(edits, {p.position, p.token, TokenState::visible, p.probability});
  }
  alone_ += alone;
  finished_ = alone ? !changed || alone_ >= most_ : most_ == 0;
  if (finished_) settle_finished(canvas, block, edits);
}

bool TokenEditing::keeps_open(const Canvas& canvas, const Block& block) const {
  return !finished_ && !visible_in(canvas, block).empty();
}

void ConfidenceRemasking::merge(const Canvas& canvas, const Block& block, std::span<const Prediction>,
                                std::vector<Edit>& edits) {
  for (const Edit& edit : edits) {
    Memory& memory = memory_[edit.position];
    memory.confidence = edit.confidence;
    changed_ += memory.was >= 0 && memory.was != edit.token;
  }
  const std::vector<int32_t> visible = visible_in(canvas, block);
  std::vector<std::pair<double, int32_t>> doubtful;
  for (const int32_t p : visible) {
    const Memory& memory = memory_[p];
    if (memory.confidence < below_ && memory.times < limit_) doubtful.emplace_back(memory.confidence, p);
  }
  std::ranges::sort(doubtful);
  const auto most = static_cast<size_t>(std::ceil(share_ * static_cast<double>(visible.size())));
  doubtful.resize(std::min(doubtful.size(), most));
  for (const auto& [confidence, position] : doubtful) {
    Memory& memory = memory_[position];
    ++memory.times;
    memory.was = canvas.tokens[static_cast<size_t>(position)];
    ++made_;
    put(edits, {position, canvas.mask_id, TokenState::masked, confidence});
  }
  settle_finished(canvas, block, edits);
}

}  // namespace llada::decode
