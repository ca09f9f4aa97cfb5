#include "engine/picking.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace llada {

std::vector<size_t> pick(std::span<const WaitingStep> oldest_first, int64_t row_budget, int64_t patience,
                         double seconds) {
  std::vector<size_t> order(oldest_first.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto urgency = [&](size_t i) {
    return oldest_first[i].passed_over >= patience ? oldest_first[i].passed_over : -1;
  };
  std::ranges::stable_sort(order, std::ranges::greater{}, urgency);
  std::vector<size_t> picked;
  int64_t left = row_budget;
  const auto heavy = [](const WaitingStep& step) { return step.seconds > kHeavySeconds; };
  if (std::ranges::all_of(oldest_first, heavy)) seconds = std::numeric_limits<double>::infinity();
  for (const size_t i : order) {
    const WaitingStep& step = oldest_first[i];
    if (!picked.empty() && (step.rows > left || (heavy(step) && step.seconds > seconds))) continue;
    picked.push_back(i);
    left -= step.rows;
    if (heavy(step)) seconds -= step.seconds;
  }
  std::ranges::sort(picked);
  return picked;
}

int64_t row_budget(std::span<const decode::LatencyPoint> rows_to_ms) {
  const auto price = [](const decode::LatencyPoint& point) { return point.ms / static_cast<double>(point.rows); };
  double cheapest = std::numeric_limits<double>::infinity();
  for (const decode::LatencyPoint& point : rows_to_ms) cheapest = std::min(cheapest, price(point));
  for (const decode::LatencyPoint& point : rows_to_ms)
    if (price(point) <= 1.1 * cheapest) return point.rows;
  return 1;
}

// A size stands for the rows above the next smaller one: 8, 16, 32, 64, 128, 256.
void RowBudget::ran(int64_t rows, double seconds) {
  constexpr int64_t kLeast = 8, kAgain = 256;  // forwards until larger sizes are tried again
  if (rows < 1 || rows > most_ || !(seconds > 0)) return;
  int64_t size = kLeast;
  while (size < rows) size *= 2;
  const double ms = seconds * 1e3 / static_cast<double>(rows) * static_cast<double>(size);  // as if it were full
  const auto at = std::ranges::lower_bound(sizes_, size, {}, &decode::LatencyPoint::rows);
  if (at == sizes_.end() || at->rows != size) {
    sizes_.insert(at, {size, ms});
  } else {
    at->ms = std::min(at->ms, ms);
  }
  const int64_t best = row_budget(sizes_);
  if (++forwards_ % kAgain == 0) std::erase_if(sizes_, [&](const auto& known) { return known.rows > best; });
  const int64_t largest = sizes_.back().rows;
  rows_ = std::max(best == largest ? std::max(2 * largest, kFirst) : best, kLeast);
  rows_ = std::min(rows_, most_);
}

}  // namespace llada
