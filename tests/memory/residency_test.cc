// The residency plan: hand-worked cycles, the published bounds for LLaDA-8B in Q4_0, and
// properties on random slabs.
#include "memory/residency.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "memory/llada_8b.h"
#include "must.h"

namespace llada {
namespace {

constexpr double kGiB = 0x1p30;
constexpr int64_t kMiB = int64_t{1} << 20;

std::vector<Slab> equal_slabs(int n, int64_t bytes) {
  std::vector<Slab> slabs;
  for (int i = 0; i < n; ++i) slabs.push_back({.weights = {i}, .bytes = bytes, .layer = i});
  return slabs;
}

TEST(Slabs, WeightsOfALayerLieTogetherInFirstUseOrder) {
  const std::vector<WeightUse> uses = {{7, 5000, 0, 0, 1}, {3, 100, 0, 0, 1}, {4, 4096, 0, 1, 2},
                                       {9, 1, 1, 0, 3},    {2, 8, -1, 0, 4},  {5, 8, -1, 0, 5}};
  const auto layers = group_slabs(uses, SlabGrain::layer);
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[0].weights, (std::vector<int32_t>{7, 3, 4}));
  EXPECT_EQ(layers[0].bytes, 3 * 4096) << "9196 bytes in whole pages";
  EXPECT_EQ(layers[2].weights, (std::vector<int32_t>{2, 5}));
  const auto halves = group_slabs(uses, SlabGrain::half_layer);
  ASSERT_EQ(halves.size(), 4u);
  EXPECT_EQ(halves[0].bytes, 2 * 4096);
  EXPECT_EQ(halves[1].weights, (std::vector<int32_t>{4}));
  const auto ops = group_slabs(uses, SlabGrain::op);
  ASSERT_EQ(ops.size(), 5u);
  EXPECT_EQ(ops[0].weights, (std::vector<int32_t>{7, 3})) << "what one op reads cannot be apart";
}

TEST(Residency, TenSlabsThroughSixPinFourAndStreamSixEvenly) {
  const auto plan = must(plan_residency(equal_slabs(10, kPageBytes), 6 * kPageBytes));
  EXPECT_EQ(plan->streamed, (std::vector<int32_t>{0, 2, 4, 5, 7, 9}));
  EXPECT_EQ(plan->lower_bound(), 4 * kPageBytes);
  EXPECT_EQ(plan->bytes_per_pass(), 6 * kPageBytes) << "two slots above the bound";
  const auto one = must(plan_residency(equal_slabs(10, kPageBytes), 6 * kPageBytes, {.slots = 1}));
  EXPECT_EQ(one->bytes_per_pass(), 5 * kPageBytes);
}

TEST(Residency, TheSlabAtTheBorderIsCutAtAPage) {
  // 4 slabs of 10 pages, a window of 33: two slots of 10, one slab pinned, 3 pages of another.
  const auto plan = must(plan_residency(equal_slabs(4, 10 * kPageBytes), 33 * kPageBytes + 17));
  ASSERT_EQ(plan->slabs.size(), 5u);
  const auto cut = std::ranges::find(plan->slabs, 3 * kPageBytes, &Slab::bytes) - plan->slabs.begin();
  ASSERT_LT(cut, 4);
  EXPECT_TRUE(plan->pinned[static_cast<size_t>(cut)]);
  EXPECT_FALSE(plan->pinned[static_cast<size_t>(cut) + 1]);
  EXPECT_EQ(plan->slabs[static_cast<size_t>(cut) + 1].bytes, 7 * kPageBytes);
  EXPECT_EQ(plan->slabs[static_cast<size_t>(cut)].weights, plan->slabs[static_cast<size_t>(cut) + 1].weights);
  EXPECT_EQ(plan->pinned_bytes, 13 * kPageBytes);
  EXPECT_EQ(plan->bytes_per_pass(), 27 * kPageBytes);
}

TEST(Residency, EnoughWindowIsNoWork) {
  for (const int64_t v : {kUnlimitedWindow, int64_t{10} * kPageBytes, int64_t{1000} * kPageBytes}) {
    const auto plan = must(plan_residency(equal_slabs(10, kPageBytes), v));
    EXPECT_TRUE(plan->streamed.empty());
    EXPECT_EQ(plan->slots, 0);
    EXPECT_EQ(plan->bytes_per_pass(), 0);
    EXPECT_EQ(plan->lower_bound(), 0);
  }
}

TEST(Residency, TooSmallAWindowNamesTheOneThatWouldDo) {
  const auto plan = plan_residency(equal_slabs(10, 3 * kPageBytes), 5 * kPageBytes);
  ASSERT_FALSE(plan);
  EXPECT_EQ(exit_status(plan.error()), 2);
  EXPECT_EQ(plan.error().message,
            "window: found 20480 bytes for weights, needed at least 24576 for 2 slots of their slabs");
  EXPECT_TRUE(plan_residency(equal_slabs(10, 3 * kPageBytes), 6 * kPageBytes));
}

// A large head beside small layers is pinned, so that slots stay small.
TEST(Residency, TheLargestSlabIsPinned) {
  auto slabs = equal_slabs(8, kPageBytes);
  slabs.push_back({.weights = {8}, .bytes = 4 * kPageBytes, .layer = -1});
  const auto plan = must(plan_residency(slabs, 8 * kPageBytes));
  EXPECT_TRUE(plan->pinned.back());
  EXPECT_EQ(plan->slot_bytes, kPageBytes);
  EXPECT_EQ(plan->bytes_per_pass(), 6 * kPageBytes);
}

// The two columns of bounds for LLaDA-8B in Q4_0 with 0.3 GiB of reserve, to the two decimals that are known:
// bytes per pass in GiB of the lower bound, one slot, two slots, and of all weights.
TEST(Residency, Llada8bMapsWhatTheBoundsSay) {
  struct Row {
    double window_gib;
    bool head;
    double all, bound, one, two;
  };
  for (const Row& row : {Row{2.0, true, 3.93, 2.23, 2.34, 2.46}, Row{2.75, true, 3.93, 1.48, 1.59, 1.71},
                         Row{3.5, true, 3.93, 0.73, 0.84, 0.96}, Row{3.5, false, 3.66, 0.46, 0.57, 0.68},
                         Row{3.8, true, 3.93, 0.43, 0.54, 0.66}}) {
    const auto slabs = group_slabs(llada_8b(row.head), SlabGrain::layer);
    const int64_t v = llada_8b_window(row.window_gib);
    const auto one = plan_residency(slabs, v, {.slots = 1}), two = plan_residency(slabs, v);
    ASSERT_TRUE(one && two);
    constexpr double kRounding = 0.0065;  // the table's own, and 1 MiB of norms that it leaves out
    EXPECT_NEAR(static_cast<double>(two->weight_bytes) / kGiB, row.all, kRounding);
    EXPECT_NEAR(static_cast<double>(two->lower_bound()) / kGiB, row.bound, kRounding);
    EXPECT_NEAR(static_cast<double>(one->bytes_per_pass()) / kGiB, row.one, kRounding) << row.window_gib;
    EXPECT_NEAR(static_cast<double>(two->bytes_per_pass()) / kGiB, row.two, kRounding) << row.window_gib;
  }
  EXPECT_EQ(plan_residency(group_slabs(llada_8b(true), SlabGrain::layer), kUnlimitedWindow)->bytes_per_pass(), 0);
}

TEST(Residency, WithinTwoSlabsOfTheBoundAtEveryWindow) {
  for (const SlabGrain grain : {SlabGrain::layer, SlabGrain::half_layer, SlabGrain::op}) {
    const auto slabs = group_slabs(llada_8b(true), grain);
    for (double gib = 1.0; gib < 4.5; gib += 0.05) {
      const auto plan = must(plan_residency(slabs, llada_8b_window(gib)));
      EXPECT_LE(plan->bytes_per_pass(), plan->lower_bound() + 2 * 117 * kMiB + 2 * 32 * 1024) << gib;
      EXPECT_LE(plan->bytes_per_pass(), plan->lower_bound() + 2 * std::max(plan->slot_bytes, kPageBytes)) << gib;
    }
  }
}

TEST(Residency, RandomSlabsFitTheWindowAndKeepEveryByte) {
  for (uint64_t trial = 0; trial < 300; ++trial) {
    std::vector<Slab> slabs;
    const auto n = static_cast<int>(2 + uniform(trial, 0, 0, 0) * 30);
    for (int i = 0; i < n; ++i)
      slabs.push_back(
          {{i}, kPageBytes * static_cast<int64_t>(1 + uniform(trial, 1, static_cast<uint64_t>(i), 0) * 40), i});
    const auto v = static_cast<int64_t>(uniform(trial, 2, 0, 0) * 1.2 * static_cast<double>(total_bytes(slabs)));
    const auto plan = plan_residency(slabs, v);
    if (!plan) continue;
    EXPECT_EQ(total_bytes(plan->slabs), total_bytes(slabs));
    int64_t resident = plan->slots * plan->slot_bytes;
    for (size_t i = 0; i < plan->slabs.size(); ++i) {
      if (plan->pinned[i]) resident += plan->slabs[i].bytes;
      EXPECT_EQ(plan->slabs[i].bytes % kPageBytes, 0);
      EXPECT_GT(plan->slabs[i].bytes, 0);
    }
    EXPECT_LE(resident, v);
    const int64_t largest = std::ranges::max_element(slabs, {}, &Slab::bytes)->bytes;
    EXPECT_LE(plan->bytes_per_pass(), plan->lower_bound() + 2 * largest);
  }
}

// The largest distance between neighbours is at most one more than the smallest: evenly spread.
TEST(Residency, StreamedLayersAreSpreadEvenly) {
  const auto plan = must(plan_residency(group_slabs(llada_8b(false), SlabGrain::layer), llada_8b_window(3.5)));
  std::vector<int> layers;
  for (const int32_t s : plan->streamed) layers.push_back(plan->slabs[static_cast<size_t>(s)].layer);
  ASSERT_GE(layers.size(), 5u);
  EXPECT_EQ(layers.front(), 0);
  EXPECT_EQ(layers.back(), 31);
  int least = 32, most = 0;
  for (size_t i = 1; i < layers.size(); ++i)
    least = std::min(least, layers[i] - layers[i - 1]), most = std::max(most, layers[i] - layers[i - 1]);
  EXPECT_LE(most - least, 1);
}

TEST(Sessions, TwoWindowsHoldWhatOneCannot) {
  const auto slabs = group_slabs(llada_8b(true), SlabGrain::layer);
  const auto session = must(split_sessions(slabs, llada_8b_window(3.5), 2));
  EXPECT_EQ(session->front(), 0);
  EXPECT_EQ(session->back(), 1);
  std::array<int64_t, 2> bytes{};
  for (size_t i = 0; i < slabs.size(); ++i) bytes[static_cast<size_t>((*session)[i])] += slabs[i].bytes;
  EXPECT_LE(*std::ranges::max_element(bytes), llada_8b_window(3.5));
  EXPECT_TRUE(std::ranges::is_sorted(*session));
  EXPECT_FALSE(split_sessions(slabs, llada_8b_window(3.5), 1));
  EXPECT_EQ(*split_sessions(slabs, kUnlimitedWindow, 1), std::vector<int32_t>(slabs.size(), 0));
}

}  // namespace
}  // namespace llada
