#include "study/moe_rivals.h"

#include <algorithm>
#include <numeric>

namespace llada {
namespace {

constexpr size_t kNever = size_t{1} << 40;

}  // namespace

ScoreGuesses::ScoreGuesses(int32_t layers, int32_t experts, CacheOptions options)
    : scores_(layers, experts, [&] {
        options.rule = CacheRule::mrs;
        return options;
      }()) {}

LayerRouting ScoreGuesses::guess(int32_t layer, const LayerRouting& present) const {
  LayerRouting guess{std::vector<int32_t>(present.rows.size(), 0), std::vector<float>(present.rows.size(), 0)};
  for (size_t e = 0; e < guess.score.size(); ++e)
    guess.score[e] = static_cast<float>(scores_.worth({layer, static_cast<int32_t>(e)}));
  std::vector<int32_t> rows = present.rows;
  std::ranges::sort(rows, std::greater<>());
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t e) { return guess.score[e]; });
  for (size_t i = 0; i < order.size(); ++i) guess.rows[order[i]] = rows[i];
  return guess;
}

int64_t belady_hits(std::span<const LayerRouting* const> steps, int32_t slots) {
  if (steps.empty()) return 0;
  const size_t experts = steps[0]->rows.size();
  std::vector<std::vector<size_t>> uses(experts);  // steps, ascending
  for (size_t t = 0; t < steps.size(); ++t)
    for (size_t e = 0; e < experts; ++e)
      if (steps[t]->rows[e] > 0) uses[e].push_back(t);
  std::vector<bool> resident(experts, false);
  std::fill_n(resident.begin(), std::min(static_cast<size_t>(slots), experts), true);
  int64_t hits = 0;
  for (size_t t = 0; t < steps.size(); ++t) {
    const auto next = [&](size_t e) {
      const auto found = std::ranges::upper_bound(uses[e], t);
      return found == uses[e].end() ? kNever : *found;
    };
    for (size_t e = 0; e < experts; ++e) {
      if (steps[t]->rows[e] == 0) continue;
      if (resident[e]) {
        ++hits;
        continue;
      }
      size_t victim = experts;  // of those that this step does not use, the first that is wanted last
      for (size_t r = 0; r < experts; ++r)
        if (resident[r] && steps[t]->rows[r] == 0 && (victim == experts || next(r) > next(victim))) victim = r;
      if (victim < experts && next(e) < next(victim)) resident[victim] = false, resident[e] = true;
    }
  }
  return hits;
}

}  // namespace llada
