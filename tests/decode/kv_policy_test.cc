// Which rows each K/V policy computes, step by step on worked examples.
#include "decode/kv_policy.h"

#include <gmock/gmock.h>

#include <cmath>

#include "decode/pairs.h"
#include "decode/script.h"

namespace llada::decode {
namespace {

using testing::ElementsAre;
using Span = std::pair<int32_t, int32_t>;

// First and one past the last row of each step; the rows must be contiguous.
std::vector<Span> spans(const Outcome& outcome) {
  std::vector<Span> out;
  for (const StepPlan& plan : outcome.plans) {
    out.emplace_back(plan.rows.front(), plan.rows.back() + 1);
    EXPECT_EQ(plan.rows.size(), static_cast<size_t>(out.back().second - out.back().first));
    EXPECT_EQ(plan.keys, 12) << "everything is attended to";
  }
  return out;
}

// Prompt [0, 4), blocks [4, 8) and [8, 12), one token per step.
Outcome run_policy(KvChoice kv, int64_t refresh) {
  const DecodeOptions options = {
      .gen_length = 8, .block_length = 4, .early_stop = EarlyStop::none, .kv = kv, .refresh = refresh};
  return run_script(options, std::vector<int32_t>{1, 2, 3, 4}, random_script(5));
}

const Span kAll = {0, 12}, kFirst = {4, 8}, kTail = {4, 12}, kSecond = {8, 12};

TEST(KvPolicy, WorkedExample) {
  const Outcome none = run_policy(KvChoice::none, 0);
  EXPECT_EQ(spans(none), std::vector<Span>(8, kAll));
  EXPECT_EQ(none.stats.rows, 96);
  EXPECT_EQ(none.stats.full_forwards, 8);

  const Outcome prefix = run_policy(KvChoice::prefix, 0);
  EXPECT_THAT(spans(prefix), ElementsAre(kAll, kTail, kTail, kTail, kAll, kSecond, kSecond, kSecond));
  EXPECT_EQ(prefix.stats.rows, 12 + 3 * 8 + 12 + 3 * 4);

  const Span kHead = {0, 8};
  EXPECT_THAT(spans(run_policy(KvChoice::suffix, 0)), ElementsAre(kAll, kHead, kHead, kHead, kAll, kAll, kAll, kAll));

  const Outcome dual = run_policy(KvChoice::dual, 0);
  EXPECT_THAT(spans(dual), ElementsAre(kAll, kFirst, kFirst, kFirst, kAll, kSecond, kSecond, kSecond));
  EXPECT_EQ(dual.stats.rows, 2 * 12 + 6 * 4);
  EXPECT_EQ(dual.stats.full_forwards, 2);
  EXPECT_EQ(dual.stats.logit_rows, 2 * (4 + 3 + 2 + 1));

  EXPECT_THAT(spans(run_policy(KvChoice::block, 0)), testing::ElementsAreArray(spans(dual)));
  EXPECT_THAT(spans(run_policy(KvChoice::block, 2)),
              ElementsAre(kAll, kFirst, kAll, kFirst, kAll, kSecond, kAll, kSecond));
  EXPECT_THAT(spans(run_policy(KvChoice::prefix, 3)),
              ElementsAre(kAll, kTail, kTail, kAll, kAll, kSecond, kSecond, kAll));
}

// Prompt [0, 4), blocks [4, 8) and [8, 12), one token per step, from the left or from the right.
TEST(KvPolicy, FrozenRowsAreThoseWhoseRightNeighbourIsDecidedToo) {
  const auto rows_of = [](bool from_left) {
    const Script script = [from_left](const StepPlan&, int64_t, int32_t position) {
      return Prediction{.position = position,
                        .token = 1,
                        .probability = (from_left ? 20.0 - position : position) / 20,
                        .entropy = 0.1,
                        .margin = 0.1};
    };
    const DecodeOptions options = {
        .gen_length = 8, .block_length = 4, .early_stop = EarlyStop::none, .kv = KvChoice::frozen};
    std::vector<std::vector<int32_t>> rows;
    for (const StepPlan& plan : run_script(options, std::vector<int32_t>{1, 2, 3, 4}, script).plans)
      rows.push_back(plan.rows);
    return rows;
  };
  const std::vector<int32_t> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  // A token is computed until its right neighbour is decided, and once more.
  EXPECT_THAT(rows_of(true),
              ElementsAre(all, ElementsAre(4, 5, 6, 7), ElementsAre(4, 5, 6, 7), ElementsAre(5, 6, 7), all,
                          ElementsAre(8, 9, 10, 11), ElementsAre(8, 9, 10, 11), ElementsAre(9, 10, 11)));
  // The last of a block has no neighbour to wait for.
  EXPECT_THAT(rows_of(false), ElementsAre(all, ElementsAre(4, 5, 6, 7), ElementsAre(4, 5, 6), ElementsAre(4, 5), all,
                                          ElementsAre(8, 9, 10, 11), ElementsAre(8, 9, 10), ElementsAre(8, 9)));
}

TEST(KvPolicy, InputsAreTheCanvasAtTheRows) {
  const Outcome dual = run_policy(KvChoice::dual, 0);
  std::vector<int32_t> tokens = {1, 2, 3, 4, kMask, kMask, kMask, kMask, kMask, kMask, kMask, kMask};
  for (size_t step = 0; step < dual.plans.size(); ++step) {
    const StepPlan& plan = dual.plans[step];
    for (size_t i = 0; i < plan.rows.size(); ++i) {
      ASSERT_EQ(plan.inputs[i], tokens[static_cast<size_t>(plan.rows[i])]);
    }
    for (const auto& [position, token] : dual.trace[step]) tokens[static_cast<size_t>(position)] = token;
  }
}

TEST(KvPolicy, RefreshingEveryStepIsNone) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    DecodeOptions options = {
        .gen_length = 21, .block_length = 8, .acceptance = Acceptance::threshold, .threshold = 0.8};
    const std::vector<int32_t> prompt(seed % 5, 1);
    const Outcome exact = run_script(options, prompt, random_script(seed));
    options.refresh = 1;
    for (const KvChoice kv :
         {KvChoice::prefix, KvChoice::suffix, KvChoice::dual, KvChoice::block, KvChoice::delayed, KvChoice::frozen}) {
      options.kv = kv;
      const Outcome refreshed = run_script(options, prompt, random_script(seed));
      ASSERT_EQ(refreshed.plans.size(), exact.plans.size());
      for (size_t i = 0; i < exact.plans.size(); ++i) {
        ASSERT_EQ(refreshed.plans[i].rows, exact.plans[i].rows);
        ASSERT_EQ(refreshed.plans[i].inputs, exact.plans[i].inputs);
        ASSERT_EQ(refreshed.plans[i].logits, exact.plans[i].logits);
        ASSERT_EQ(refreshed.plans[i].keys, exact.plans[i].keys);
      }
      ASSERT_EQ(refreshed.trace, exact.trace);
    }
  }
}

TEST(KvPolicy, DelayedStoresATokenOneStepAfterItsCommit) {
  const Outcome o = run_policy(KvChoice::delayed, 0);
  ASSERT_EQ(o.plans.size(), 8u);
  EXPECT_EQ(o.stats.full_forwards, 1) << "the second block starts without one";
  std::vector<bool> masked(12, true);
  for (size_t step = 0; step + 1 < 8; ++step) {
    const int32_t committed = o.trace[step][0].first;
    masked[static_cast<size_t>(committed)] = false;
    // The masks of the current block, and the token that was just committed.
    std::vector<int32_t> expected = {committed};
    for (int32_t p = step < 3 ? 4 : 8; p < (step < 3 ? 8 : 12); ++p)
      if (masked[static_cast<size_t>(p)]) expected.push_back(p);
    std::ranges::sort(expected);
    EXPECT_EQ(o.plans[step + 1].rows, expected) << "step " << step + 1;
  }
  const Outcome refreshed = run_policy(KvChoice::delayed, 3);
  for (size_t step = 0; step < 8; ++step) EXPECT_EQ(refreshed.plans[step].rows.size() == 12, step % 3 == 0);
}

TEST(KvPolicy, TailBoundsWhatIsReadAndComputed) {
  DecodeOptions options = {.gen_length = 12, .block_length = 4, .early_stop = EarlyStop::none, .kv = KvChoice::delayed};
  options.tail = 2;
  const Outcome o = run_script(options, std::vector<int32_t>{1, 2}, random_script(1));
  EXPECT_EQ(o.plans[0].keys, 8);
  EXPECT_EQ(o.plans[0].rows.size(), 8u);
  EXPECT_EQ(o.plans[4].keys, 12);
  EXPECT_THAT(o.plans[4].rows, testing::IsSupersetOf({8, 9, 10, 11})) << "8 to 11 were never computed";
  EXPECT_EQ(o.plans[8].keys, 14);
  options.tail = 1000;
  options.kv = KvChoice::none;
  const Outcome all = run_script(options, std::vector<int32_t>{1, 2}, random_script(1));
  for (const StepPlan& plan : all.plans) EXPECT_EQ(plan.rows.size(), 14u);
}

// The first position that a tail cuts off stands for the last one: fed a mask, never asked, computed anew for each
// block, since it is another position there.
TEST(KvPolicy, TheLastPositionIsReadBesideTheTail) {
  DecodeOptions options = {.gen_length = 12, .block_length = 4, .early_stop = EarlyStop::none, .kv = KvChoice::dual};
  options.tail = 2, options.tail_last = true;
  const Outcome o = run_script(options, std::vector<int32_t>{1, 2}, random_script(1));
  EXPECT_EQ(o.plans[0].keys, 9) << "6 of the block and before, 2 behind, one for the last";
  EXPECT_EQ(o.plans[0].last, 13);
  EXPECT_EQ(o.plans[0].inputs.back(), kMask);
  EXPECT_EQ(o.plans[1].last, 13) << "from the store";
  EXPECT_EQ(o.plans[4].keys, 13);
  EXPECT_EQ(o.plans[4].last, 13);
  EXPECT_THAT(o.plans[4].rows, testing::IsSupersetOf({8, 9, 10, 11, 12}));
  EXPECT_EQ(o.plans[8].keys, 14);
  EXPECT_EQ(o.plans[8].last, -1) << "nothing is cut off";
  for (const StepPlan& plan : o.plans) EXPECT_THAT(plan.logits, testing::Each(testing::Lt(plan.block_end)));
  // With one position cut off, it is the last one itself; with none there is nothing to stand for.
  for (const int64_t tail : {7, 8, 9}) {
    options.tail = tail, options.tail_last = true;
    const Outcome with = run_script(options, std::vector<int32_t>{1, 2}, random_script(1));
    options.tail_last = false, options.tail = std::max<int64_t>(tail, 8);
    const Outcome without = run_script(options, std::vector<int32_t>{1, 2}, random_script(1));
    EXPECT_EQ(with.plans, without.plans) << tail;
    EXPECT_EQ(with.canvas.tokens, without.canvas.tokens) << tail;
  }
}

TEST(KvPolicy, BlockFinishedByItsFirstForwardCostsNoMore) {
  const DecodeOptions options = {
      .gen_length = 8, .block_length = 4, .acceptance = Acceptance::threshold, .kv = KvChoice::dual};
  const Outcome outcome = run_script(options, std::vector<int32_t>{1}, [](const StepPlan&, int64_t, int32_t position) {
    return Prediction{.position = position, .token = 2, .probability = 0.99};
  });
  EXPECT_EQ(outcome.stats.nfe, 2);
  EXPECT_EQ(outcome.stats.rows, 18);
}

TEST(KvPolicy, FrozenFinalIsRefusedWhereItHasNoMeaning) {
  const Status status = validate({.kv = KvChoice::block, .frozen_final = true});
  EXPECT_THAT(status.error().message, testing::StartsWith("frozen_final: found kv block,"));
  EXPECT_TRUE(validate({.kv = KvChoice::frozen, .frozen_final = true}));
  EXPECT_FALSE(validate_for({.kv = KvChoice::frozen, .frozen_final = true}, test_ids()))
      << "with full attention nothing is finished before the end";
}

}  // namespace
}  // namespace llada::decode
