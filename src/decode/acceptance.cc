#include "decode/acceptance.h"

#include <algorithm>
#include <numeric>

namespace llada::decode {
namespace {

// Indices by `before`, equal ones in ascending position.
template <class Before>
std::vector<size_t> ranked(std::span<const Candidate> candidates, Before before) {
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    if (before(candidates[a], candidates[b])) return true;
    return !before(candidates[b], candidates[a]) && a < b;
  });
  return order;
}

bool higher_score(const Candidate& a, const Candidate& b) { return a.score > b.score; }
bool lower_entropy(const Candidate& a, const Candidate& b) { return a.entropy < b.entropy; }

std::vector<size_t> first(std::vector<size_t> order, size_t n) {
  order.resize(std::min(order.size(), n));
  std::ranges::sort(order);
  return order;
}

}  // namespace

std::vector<size_t> accept_best(std::span<const Candidate> candidates, int64_t n) {
  return first(ranked(candidates, higher_score), static_cast<size_t>(std::max<int64_t>(n, 1)));
}

std::vector<size_t> accept_above(std::span<const Candidate> candidates, double threshold) {
  const auto order = ranked(candidates, higher_score);
  size_t n = std::min<size_t>(order.size(), 1);
  while (n < order.size() && candidates[order[n]].score > threshold) ++n;
  return first(order, n);
}

std::vector<size_t> accept_factor(std::span<const Candidate> candidates, double factor) {
  const auto order = ranked(candidates, higher_score);
  size_t n = std::min<size_t>(order.size(), 1);
  // Taking one more makes it the (n + 1)-th.
  while (n < order.size() && candidates[order[n]].score >= 1 - factor / static_cast<double>(n + 2)) ++n;
  return first(order, n);
}

std::vector<size_t> accept_entropy(std::span<const Candidate> candidates, double bound) {
  const auto order = ranked(candidates, lower_entropy);
  size_t n = std::min<size_t>(order.size(), 1);
  double before = n ? candidates[order[0]].entropy : 0;
  while (n < order.size() && before <= bound) before += candidates[order[n++]].entropy;
  return first(order, n);
}

}  // namespace llada::decode
