#include "decode/dual_path.h"

#include <algorithm>

#include "decode/answer.h"
#include "decode/canvas.h"

namespace llada::decode {

DualPath::DualPath(const DecodeOptions& options, const SpecialIds& ids, const Canvas& canvas)
    : options_(options), ids_(ids), begin_(generated_begin(canvas)), memory_(static_cast<size_t>(canvas.size())) {}

TokenState DualPath::first_state(double confidence) const {
  return confidence >= options_.stable_threshold ? TokenState::stable : TokenState::visible;
}

// Visible tokens up to the first decided end token: what a check can still be of use for.
std::vector<int32_t> DualPath::revisable(const Canvas& canvas) const {
  const int64_t end = canvas.infill ? canvas.size() : first_end(canvas, begin_, canvas.size(), ids_.end_ids);
  return positions_in(canvas,
                      {.begin = static_cast<int32_t>(begin_),
                       .end = static_cast<int32_t>(std::min(end + 1, canvas.size())),
                       .masks = 0},
                      TokenState::visible);
}

// No mask before the first end token, or none at all.
bool DualPath::all_decided(const Canvas& canvas) const {
  const auto open = std::find(canvas.states.begin() + begin_, canvas.states.end(), TokenState::masked);
  const int64_t masked = open - canvas.states.begin();
  if (open == canvas.states.end()) return true;
  return !canvas.infill && first_end(canvas, begin_, masked, ids_.end_ids) < masked;
}

Checks DualPath::checks(const Canvas& canvas, const Block&) {
  std::vector<int32_t> positions = revisable(canvas);
  // By turns the most doubtful ones and those that have waited longest, so that neither is forgotten.
  const bool least = turn_++ % 2 == 0;
  std::ranges::stable_sort(positions, [&](int32_t a, int32_t b) {
    const Memory &x = memory_[static_cast<size_t>(a)], &y = memory_[static_cast<size_t>(b)];
    return least ? x.confidence < y.confidence : x.looked < y.looked;
  });
  positions.resize(std::min(positions.size(), static_cast<size_t>(options_.revise_rows)));
  std::ranges::sort(positions);
  return {.trials = std::move(positions), .in_place = {}};
}

void DualPath::merge(const Canvas& canvas, const Block&, std::span<const Prediction> seen, bool pending,
                     std::vector<Edit>& edits) {
  ++step_;
  for (const Edit& edit : edits)
    memory_[static_cast<size_t>(edit.position)] = {.looked = step_, .confidence = edit.confidence};
  std::vector<Prediction> changes;
  for (const Prediction& p : seen) {
    const auto i = static_cast<size_t>(p.position);
    if (canvas.states[i] != TokenState::visible) continue;
    Memory& memory = memory_[i];
    memory.looked = step_;
    ++memory.checks;
    ++made_;
    if (p.token == canvas.tokens[i]) {
      ++memory.agreements;
      memory.confidence = p.probability;
      if (p.probability >= options_.stable_threshold || memory.agreements >= kStableRepeats)
        put(edits, {p.position, p.token, TokenState::stable, p.probability});
    } else if (p.probability >= options_.threshold) {
      changes.push_back(p);
    } else {
      memory.agreements = 0;
      memory.confidence = 1 - p.probability;
    }
  }
  for (size_t c = 0; c < changes.size(); ++c) {
    const Prediction& p = changes[c];
    const auto beats = [&](const Prediction& other) {
      return other.probability > p.probability || (other.probability == p.probability && other.position < p.position);
    };
    const bool beaten = (c > 0 && changes[c - 1].position == p.position - 1 && beats(changes[c - 1])) ||
                        (c + 1 < changes.size() && changes[c + 1].position == p.position + 1 && beats(changes[c + 1]));
    Memory& memory = memory_[static_cast<size_t>(p.position)];
    memory.agreements = beaten ? 0 : 1;
    memory.confidence = beaten ? 1 - p.probability : p.probability;
    if (beaten) continue;
    ++changed_;
    put(edits, {p.position, p.token, TokenState::visible, p.probability});
  }
  finish_checked(canvas, pending, edits);
}

// What has been checked often enough is final, and everything once there is nothing to decide.
void DualPath::finish_checked(const Canvas& canvas, bool pending, std::vector<Edit>& edits) const {
  const Canvas after = with_edits(canvas, edits);
  const bool complete = !pending && all_decided(after);
  for (const int32_t p : revisable(after)) {
    const Memory& memory = memory_[static_cast<size_t>(p)];
    if (memory.checks >= kMostChecks || complete)
      put(edits, {p, after.tokens[static_cast<size_t>(p)], TokenState::stable, memory.confidence});
  }
}

bool DualPath::waits(const Canvas& canvas) const { return all_decided(canvas) && !revisable(canvas).empty(); }

// Every step commits a mask, but for one that waits for the last pass.
int64_t DualPath::step_bound(int64_t masks, int64_t) const { return masks + 1; }

}  // namespace llada::decode
