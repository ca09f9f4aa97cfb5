// The scripted pace, with a scripted model: how many tokens every step commits, which rows it computes, and
// when it ends.
#include "lab/bench/scripted_strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "decode/canvas.h"
#include "decode/script.h"

namespace llada::bench {
namespace {

using decode::Canvas;
using decode::StepPlan;
using testing::ElementsAre;

constexpr int32_t kMask = 99;

Canvas canvas_of(int64_t prompt, int64_t masks) {
  const std::vector<int32_t> tokens(static_cast<size_t>(prompt), 1);
  return decode::lay_generation(tokens, masks, {.mask = kMask});
}

// Certain of high positions: probabilities rise with the position.
class Script1 final : public decode::StepRunner {
 public:
  Result<decode::StepResult> run(const StepPlan& plan, int64_t) override {
    plans.push_back(plan);
    decode::StepResult out;
    for (const int32_t p : plan.logits)
      out.predictions.push_back({.position = p, .token = 7, .probability = 0.001 * p});
    return out;
  }
  std::vector<StepPlan> plans;
};

struct Outcome {
  decode::RunStats stats;
  std::vector<StepPlan> plans;
  std::vector<std::vector<int32_t>> commits;
};

Outcome play(const Script& script, int64_t prompt, int64_t masks) {
  Canvas canvas = canvas_of(prompt, masks);
  ScriptedStrategy strategy(script, canvas);
  Script1 runner;
  Outcome out;
  const auto stats = decode::denoise(canvas, strategy, runner, [&](const decode::StepEvent& event) {
    auto& step = out.commits.emplace_back();
    for (const decode::Edit& edit : event.edits) step.push_back(edit.position);
    return true;
  });
  EXPECT_TRUE(stats) << stats.error().message;
  out.stats = *stats;
  out.plans = std::move(runner.plans);
  EXPECT_EQ(decode::count_masked(canvas), 0);
  EXPECT_EQ(out.stats.nfe, strategy.step_bound());
  return out;
}

TEST(Scripted, CommitsExactlyNPerStepAndTheRestInABlocksLast) {
  const auto run = play({.block_length = 32, .tokens_per_step = 5}, 78, 128);
  EXPECT_EQ(run.stats.nfe, 28);  // four blocks of seven: 5 5 5 5 5 5 2
  for (size_t step = 0; step < run.commits.size(); ++step)
    EXPECT_EQ(run.commits[step].size(), step % 7 == 6 ? 2u : 5u) << step;
  EXPECT_EQ(run.stats.committed, 128);
}

TEST(Scripted, OneStepPerBlockWhenNCoversIt) {
  EXPECT_EQ(play({.block_length = 8, .tokens_per_step = 8}, 3, 24).stats.nfe, 3);
  EXPECT_EQ(play({.block_length = 8, .tokens_per_step = 100}, 3, 20).stats.nfe,
            3);  // the last block is short
  EXPECT_EQ(play({.block_length = 8, .tokens_per_step = 1}, 3, 20).stats.nfe, 20);
}

TEST(Scripted, TheMostCertainGoFirst) {
  const auto run = play({.block_length = 4, .tokens_per_step = 2}, 2, 8);
  EXPECT_THAT(run.commits, ElementsAre(ElementsAre(4, 5), ElementsAre(2, 3), ElementsAre(8, 9), ElementsAre(6, 7)));
}

// Prompt [0, 5), blocks [4, 8), [8, 12): the first forward of a block also writes the finished block before it.
TEST(Scripted, ABlockCausalModelComputesExactBlocks) {
  Canvas canvas = decode::lay_generation(std::vector<int32_t>(5, 1), 7, {.mask = kMask, .attention_block = 4});
  ScriptedStrategy strategy({.block_length = 4, .tokens_per_step = 2, .attention_block = 4}, canvas);
  Script1 runner;
  ASSERT_TRUE(decode::denoise(canvas, strategy, runner, {}));
  std::vector<std::pair<int32_t, int32_t>> spans;
  for (const StepPlan& plan : runner.plans) {
    spans.emplace_back(plan.rows.front(), plan.rows.back() + 1);
    EXPECT_EQ(plan.keys, plan.rows.back() + 1);
  }
  using S = std::pair<int32_t, int32_t>;
  EXPECT_THAT(spans, ElementsAre(S{0, 8}, S{4, 8}, S{4, 12}, S{8, 12}));
}

TEST(Scripted, RefreshPerBlockComputesEverythingOncePerBlock) {
  const auto run = play({.block_length = 4, .tokens_per_step = 2}, 2, 8);
  EXPECT_EQ(run.stats.full_forwards, 2);
  EXPECT_EQ(run.stats.rows, 10 + 4 + 10 + 4);
  EXPECT_THAT(run.plans[1].rows, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(run.plans[1].logits, ElementsAre(2, 3));
}

// Of the block only what is masked and what the last step committed.
TEST(Scripted, RefreshPerBlockWithMaskedRows) {
  const auto run = play({.block_length = 4, .tokens_per_step = 1, .rows = RowsPolicy::masked}, 2, 8);
  EXPECT_EQ(run.stats.full_forwards, 2);
  EXPECT_EQ(run.stats.rows, 2 * (10 + 4 + 3 + 2));
}

// A row is computed while it is masked and once more after it was committed, the next block's first step
// included; everything else only in the first forward.
TEST(Scripted, OneRefreshComputesMaskedAndJustCommittedRows) {
  const auto run =
      play({.block_length = 4, .tokens_per_step = 2, .refresh = Refresh::once, .rows = RowsPolicy::masked}, 2, 8);
  EXPECT_EQ(run.stats.full_forwards, 1);
  EXPECT_EQ(run.plans[0].rows.size(), 10u);
  EXPECT_THAT(run.plans[1].rows, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(run.plans[2].rows, ElementsAre(2, 3, 6, 7, 8, 9));
  EXPECT_THAT(run.plans[3].rows, ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(run.plans[2].logits, ElementsAre(6, 7, 8, 9));
}

TEST(Scripted, EveryCommittedTokenButTheLastOnesIsFedToTheModelOnce) {
  for (const RowsPolicy rows : {RowsPolicy::block, RowsPolicy::masked}) {
    const auto run = play({.block_length = 6, .tokens_per_step = 4, .refresh = Refresh::once, .rows = rows}, 5, 20);
    std::set<int32_t> fed;
    for (const StepPlan& plan : run.plans)
      for (size_t i = 0; i < plan.rows.size(); ++i)
        if (plan.inputs[i] != kMask && plan.rows[i] >= 5) fed.insert(plan.rows[i]);
    EXPECT_EQ(fed.size(), 20 - run.commits.back().size()) << name(rows);
  }
}

}  // namespace
}  // namespace llada::bench
