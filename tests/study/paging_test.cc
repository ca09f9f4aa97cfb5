// The rivals of the residency plan: hand-worked cycles, and the weights of LLaDA-8B beside the plan's bounds.
#include "study/paging.h"

#include <gtest/gtest.h>

#include "memory/llada_8b.h"
#include "memory/residency.h"
#include "must.h"

namespace llada {
namespace {

struct PagingCost {
  double bytes_per_pass = 0, maps_per_pass = 0;
};

// Averages over `passes` passes after two that fill the window. Belady's rule settles into a pattern of several passes;
// with n slabs, n - 1 passes average it exactly where the slabs are equal.
Result<PagingCost> simulate_paging(PagingRule rule, const std::vector<int64_t>& slab_bytes, int64_t window_bytes,
                                   int passes) {
  LLADA_TRY(auto pager, Pager::create(rule, slab_bytes, window_bytes));
  constexpr int kWarm = 2;
  double bytes = 0, maps = 0;
  for (int pass = -kWarm; pass < passes; ++pass)
    for (size_t i = 0; i < slab_bytes.size(); ++i)
      if (pager.touch(static_cast<int32_t>(i)).map && pass >= 0) bytes += static_cast<double>(slab_bytes[i]), maps += 1;
  return PagingCost{bytes / passes, maps / passes};
}

TEST(Paging, Llada8bIsMappedWholeBesideThePlan) {
  for (const auto& [gib, head] : {std::pair{2.0, true}, {2.75, true}, {3.5, true}, {3.5, false}, {3.8, true}}) {
    const auto slabs = group_slabs(llada_8b(head), SlabGrain::layer);
    std::vector<int64_t> sizes;
    for (const Slab& slab : slabs) sizes.push_back(slab.bytes);
    const int64_t v = llada_8b_window(gib);
    const auto two = must(plan_residency(slabs, v));
    for (const PagingRule rule : {PagingRule::lru, PagingRule::drop_all}) {
      const auto cost = must(simulate_paging(rule, sizes, v, 5));
      EXPECT_EQ(cost->bytes_per_pass, static_cast<double>(two->weight_bytes)) << name(rule);
    }
    const auto belady = must(simulate_paging(PagingRule::belady, sizes, v, 31));
    EXPECT_GE(belady->bytes_per_pass, static_cast<double>(two->lower_bound()));
    EXPECT_LE(belady->bytes_per_pass, static_cast<double>(two->lower_bound()) + 2 * 123e6);
  }
}

TEST(Paging, UniformCycleOfThirtyTwoThroughTwentyEight) {
  const std::vector<int64_t> slabs(32, 100);
  for (const PagingRule rule : {PagingRule::lru, PagingRule::drop_all})
    EXPECT_EQ(simulate_paging(rule, slabs, 2800, 10)->maps_per_pass, 32) << name(rule);
  // N (N - C) / (N - 1) = 32 * 4 / 31.
  EXPECT_NEAR(simulate_paging(PagingRule::belady, slabs, 2800, 31 * 8)->maps_per_pass, 32.0 * 4 / 31, 0.02);
  for (const PagingRule rule : {PagingRule::lru, PagingRule::drop_all, PagingRule::belady}) {
    EXPECT_EQ(simulate_paging(rule, slabs, 3200, 10)->maps_per_pass, 0) << "everything fits";
    EXPECT_EQ(simulate_paging(rule, slabs, -1, 10)->maps_per_pass, 0) << "unlimited";
    EXPECT_EQ(why_not(simulate_paging(rule, slabs, 99, 10)),
              "window: found 99 bytes for weights, needed 100 for the largest slab");
  }
}

TEST(Paging, VictimsOfAHandWorkedSequence) {
  // Four slabs of 1 through a window of 3: LRU evicts 0 for 3; Belady's rule evicts 2, needed last.
  auto lru = *Pager::create(PagingRule::lru, {1, 1, 1, 1}, 3);
  auto belady = *Pager::create(PagingRule::belady, {1, 1, 1, 1}, 3);
  auto drop = *Pager::create(PagingRule::drop_all, {1, 1, 1, 1}, 3);
  for (int32_t s = 0; s < 3; ++s) {
    EXPECT_TRUE(lru.touch(s).map);
    EXPECT_TRUE(belady.touch(s).map);
    EXPECT_TRUE(drop.touch(s).evict.empty() || s > 0);
    if (s == 0) {
      EXPECT_FALSE(drop.touch(s).map);
    }
  }
  EXPECT_EQ(lru.touch(3).evict, (std::vector<int32_t>{0}));
  EXPECT_EQ(belady.touch(3).evict, (std::vector<int32_t>{2}));
  EXPECT_EQ(drop.touch(3).evict, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_FALSE(belady.touch(0).map);
  EXPECT_TRUE(lru.touch(0).map);
}

}  // namespace
}  // namespace llada
