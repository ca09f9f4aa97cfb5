#include "devices/row_choice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace llada {
namespace {

// Sixteen sums side by side: one order for every compiler, and a vector's width for most.
float dot(const float* a, const float* b, int64_t n) {
  constexpr int64_t kLanes = 16;
  std::array<float, kLanes> sums{};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) sums[static_cast<size_t>(l)] += a[i + l] * b[i + l];
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return std::accumulate(sums.begin(), sums.end(), 0.0f);
}

}  // namespace

std::vector<Candidates> candidates_of(const StepInputs& in) {
  std::vector<Candidates> all;
  int32_t next = 0;
  for (const RowSpan& span : in.spans) {
    const int32_t first = next;
    while (next < std::ssize(in.wanted) && in.wanted[static_cast<size_t>(next)] < span.begin + span.count) ++next;
    const Stream& stream = in.streams[static_cast<size_t>(span.stream)];
    if (stream.keep < 0 || next == first) continue;
    all.push_back({.stream = span.stream,
                   .first = first,
                   .rows = {in.wanted.begin() + first, in.wanted.begin() + next},
                   .keep = stream.keep,
                   .frontier = stream.frontier});
  }
  return all;
}

void add_received(const HeadRows& head, std::span<const int32_t> candidates, std::span<double> sums) {
  const size_t n = candidates.size();
  std::vector<double> scores(n), pooled(n);
  for (const int32_t row : candidates) {
    for (size_t j = 0; j < n; ++j)
      scores[j] = head.scale * static_cast<double>(
                                   dot(head.q + row * head.q_stride, head.k + candidates[j] * head.k_stride, head.dim));
    for (size_t j = 0; j < n; ++j)
      pooled[j] = std::max({scores[j], scores[j > 0 ? j - 1 : 0], scores[std::min(j + 1, n - 1)]});
    const double most = *std::ranges::max_element(pooled);
    double total = 0;
    for (double& p : pooled) total += p = std::exp(p - most);
    for (size_t j = 0; j < n; ++j) sums[j] += pooled[j] / total;
  }
}

std::vector<int32_t> choose(std::span<const float> gains, std::span<const int32_t> positions, int32_t keep,
                            int32_t frontier) {
  std::vector<int32_t> order(gains.size());
  std::iota(order.begin(), order.end(), 0);
  const auto rank = [&](int32_t i) {
    const float gain = gains[static_cast<size_t>(i)];
    return std::isnan(gain) ? std::numeric_limits<float>::infinity() : gain;
  };
  std::ranges::stable_sort(order, std::ranges::greater{}, rank);
  std::vector<bool> taken(gains.size(), false);
  int32_t left = std::min(keep, static_cast<int32_t>(order.size()));
  const auto take = [&](int32_t i) {
    if (left == 0 || taken[static_cast<size_t>(i)]) return;
    taken[static_cast<size_t>(i)] = true;
    --left;
  };
  // Candidates from the frontier on are taken in order: so many are.
  const auto first = static_cast<int32_t>(std::ranges::lower_bound(positions, frontier) - positions.begin());
  int32_t beyond = first;
  for (const int32_t i : order) {
    const auto at = static_cast<size_t>(i);
    if (i >= first && i + 1 - beyond > left) continue;
    while (beyond <= i) take(beyond++);
    take(i);
    if (i > 0 && i - 1 < beyond && positions[at - 1] + 1 == positions[at]) take(i - 1);
  }
  while (left > 0 && beyond < std::ssize(taken)) take(beyond++);
  std::vector<int32_t> chosen;
  for (int32_t i = 0; i < std::ssize(taken); ++i)
    if (taken[static_cast<size_t>(i)]) chosen.push_back(i);
  return chosen;
}

std::vector<int32_t> choose_rows(const StepInputs& in, const float* scores, const float* before) {
  std::vector<bool> goes_on(in.wanted.size(), true);
  for (const Candidates& c : candidates_of(in)) {
    std::vector<float> gains;
    std::vector<int32_t> positions;
    for (const int32_t row : c.rows) {
      gains.push_back(scores[row] - before[row]);
      positions.push_back(in.positions[static_cast<size_t>(row)]);
    }
    std::fill_n(goes_on.begin() + c.first, c.rows.size(), false);
    for (const int32_t i : choose(gains, positions, c.keep, c.frontier))
      goes_on[static_cast<size_t>(c.first + i)] = true;
  }
  std::vector<int32_t> chosen;
  for (int32_t i = 0; i < std::ssize(goes_on); ++i)
    if (goes_on[static_cast<size_t>(i)]) chosen.push_back(i);
  return chosen;
}

}  // namespace llada
