#include "memory/arena_plan.h"

#include <algorithm>
#include <numeric>

namespace llada {

ArenaPlan plan_arena(std::span<const Lifetime> buffers) {
  constexpr int64_t kAlign = 64;  // a cache line and a zmm register
  const auto aligned = [](int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; };
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });

  ArenaPlan plan{std::vector<int64_t>(buffers.size(), 0), 0};
  std::vector<size_t> placed;  // ascending by offset
  for (const size_t i : order) {
    int64_t offset = 0;
    const int64_t size = aligned(buffers[i].bytes);
    for (const size_t other : placed) {
      if (buffers[other].last < buffers[i].first || buffers[i].last < buffers[other].first) continue;
      if (offset + size <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + aligned(buffers[other].bytes));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + size);
    const auto at = std::ranges::upper_bound(placed, offset, {}, [&](size_t p) { return plan.offsets[p]; });
    placed.insert(at, i);
  }
  return plan;
}

}  // namespace llada
