#include "graph/step.h"

#include <algorithm>

namespace llada {

KeyRange KeyRule::of(int32_t position, int32_t keys) const {
  const int64_t p = position;
  int64_t first = 0, last = keys;
  if (block > 0) last = std::min<int64_t>(last, p < origin ? origin : origin + ((p - origin) / block + 1) * block);
  if (after >= 0) last = std::min(last, p + after + 1);
  if (position < causal_below) last = std::min(last, p + 1);
  if (before >= 0) first = std::clamp<int64_t>(p - before, 0, last - 1);
  return {static_cast<int32_t>(first), static_cast<int32_t>(last)};
}

KeyRange KeyWindow::of(int32_t position, KeyRange range) const {
  const int64_t p = position;
  int64_t first = range.first, last = range.last;
  if (before >= 0) first = std::clamp<int64_t>(p - before, first, last - 1);
  if (after >= 0) last = std::clamp<int64_t>(p + after + 1, first + 1, last);
  return {static_cast<int32_t>(first), static_cast<int32_t>(last)};
}

void append_span(StepInputs& step, const RowSpan& whose, std::span<const int32_t> tokens,
                 std::span<const int32_t> positions, const KeyRule& rule, int32_t keys,
                 std::span<const int32_t> places) {
  RowSpan span = whose;
  span.begin = static_cast<int32_t>(step.positions.size());
  span.count = static_cast<int32_t>(positions.size());
  step.spans.push_back(span);
  const std::span<const int32_t> kept = places.empty() ? positions : places;
  if (!places.empty() && step.places.empty()) step.places = step.positions;
  if (!places.empty() || !step.places.empty()) step.places.insert(step.places.end(), kept.begin(), kept.end());
  step.tokens.insert(step.tokens.end(), tokens.begin(), tokens.end());
  step.positions.insert(step.positions.end(), positions.begin(), positions.end());
  for (const int32_t place : kept) step.ranges.push_back(rule.of(place, keys));
}

}  // namespace llada
