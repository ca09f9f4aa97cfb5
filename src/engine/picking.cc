#include "engine/picking.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace llada {

std::vector<size_t> pick(std::span<const Candidate> oldest_first, int64_t row_budget, int64_t patience) {
  std::vector<size_t> order(oldest_first.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto urgency = [&](size_t i) {
    return oldest_first[i].passed_over >= patience ? oldest_first[i].passed_over : -1;
  };
  std::ranges::stable_sort(order, std::ranges::greater{}, urgency);
  std::vector<size_t> picked;
  int64_t left = row_budget;
  for (const size_t i : order) {
    if (!picked.empty() && oldest_first[i].rows > left) continue;
    picked.push_back(i);
    left -= oldest_first[i].rows;
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

}  // namespace llada
