// Drafts: when and how far a step looks ahead, and that only a fresh prediction brings a draft into the text.
#include "decode/speculation.h"

#include <gmock/gmock.h>

#include <numeric>

#include "decode/script.h"

namespace llada::decode {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

DecodeOptions speculate() {
  DecodeOptions o;
  o.gen_length = 8;
  o.block_length = 4;
  o.acceptance = Acceptance::threshold;
  o.threshold = 0.9;
  o.early_stop = EarlyStop::none;
  o.kv = KvChoice::block;
  o.mbsd = true;
  o.mbsd_trigger = 3;
  o.mbsd_threshold = 0.6;
  return o;
}

// Blocks [2, 6) and [6, 10). Step 0 takes 2 and 3; two masks are left, so step 1 looks ahead.
Script scenario(int32_t draft7 = 4) {
  return [=](const StepPlan&, int64_t forward, int32_t p) {
    const auto is = [&](int32_t token, double probability) {
      return Prediction{.position = p, .token = token, .probability = probability};
    };
    if (p < 4) return is(0, 0.95);
    if (p < 6) return is(1, forward == 0 ? 0.3 : 0.95);
    if (forward == 1) return p == 7 ? is(draft7, 0.7) : p == 8 ? is(5, 0.6) : is(2, 0.7);
    if (forward == 2) return p == 6 ? is(2, 0.55) : p == 9 ? is(3, 0.7) : is(4, 0.7);
    return is(6, 0.95);
  };
}

TEST(Speculation, DraftsAreCommittedOnlyWhenAFreshPredictionAgrees) {
  const Outcome o = run_script(speculate(), kPrompt, scenario());
  EXPECT_THAT(o.plans[0].logits, ElementsAre(2, 3, 4, 5)) << "four masks: no look ahead";
  EXPECT_THAT(o.plans[1].logits, ElementsAre(4, 5, 6, 7, 8, 9));
  EXPECT_THAT(o.plans[1].rows, ElementsAre(2, 3, 4, 5, 6, 7, 8, 9)) << "the block's rows and the drafts'";
  EXPECT_THAT(o.trace.at(1), ElementsAre(Pair(4, 1), Pair(5, 1))) << "drafts stay off the canvas";
  // Drafts: 6 -> 2, 7 -> 4, 9 -> 2 (all 0.7); 8 at 0.6 is not above. Afresh: 6 comes too unsure, 9 another
  // token, 7 the same: committed at 0.7, where the rule itself would have taken the best alone.
  EXPECT_EQ(o.stats.counters.drafts_proposed, 3);
  EXPECT_EQ(o.stats.counters.drafts_accepted, 1);
  EXPECT_THAT(o.trace.at(2), ElementsAre(Pair(7, 4)));
  EXPECT_THAT(o.canvas.tokens, ElementsAre(1, 1, 0, 0, 1, 1, 6, 4, 6, 6));
  EXPECT_EQ(o.stats.nfe, 4);
}

// The schedule takes a token a step, in an order that knows no probability; a confirmed draft comes beside it.
TEST(Speculation, ProbabilitiesConfirmWhateverTheScheduleOrdersBy) {
  DecodeOptions options = speculate();
  options.acceptance = Acceptance::random;
  const auto run = [&](double again) {
    int64_t drafted = -1;
    return run_script(options, kPrompt, [=](const StepPlan& plan, int64_t forward, int32_t p) mutable {
      if (drafted < 0 && plan.logits.back() >= 6 && plan.logits.front() < 6) drafted = forward;
      return Prediction{.position = p, .token = 2, .probability = p < 6 ? 0.2 : forward == drafted ? 0.7 : again};
    });
  };
  EXPECT_GT(run(0.61).stats.counters.drafts_accepted, 0);
  EXPECT_EQ(run(0.6).stats.counters.drafts_accepted, 0) << "not above the threshold, however it is ordered";
}

TEST(Speculation, AnotherTokenIsNoConfirmation) {
  const Outcome o = run_script(speculate(), kPrompt, scenario(5));
  EXPECT_EQ(o.stats.counters.drafts_accepted, 0);
  EXPECT_THAT(o.trace.at(2), ElementsAre(Pair(7, 4))) << "the best one, by the rule";
}

TEST(Speculation, TheGateHoldsForConfirmedDraftsToo) {
  DecodeOptions options = speculate();
  const Script with_entropy = [](const StepPlan& plan, int64_t forward, int32_t p) {
    Prediction prediction = scenario()(plan, forward, p);
    prediction.entropy = p == 6 ? 0.5 : 0.01;
    return prediction;
  };
  options.entropy_gate = 0.4;
  const Outcome held = run_script(options, kPrompt, with_entropy);
  EXPECT_EQ(held.stats.counters.drafts_accepted, 0) << "6 has 0.5 nats and is open when 7 is confirmed";
  EXPECT_THAT(held.trace.at(2), ElementsAre(Pair(6, 2))) << "the best with so little open before it: 0.55 against 0.7";
  options.entropy_gate = 0.5;
  const Outcome open = run_script(options, kPrompt, with_entropy);
  EXPECT_EQ(open.stats.counters.drafts_accepted, 1);
  EXPECT_THAT(open.trace.at(2), ElementsAre(Pair(7, 4)));
}

TEST(Speculation, FreeRowsFillTheBucket) {
  const std::vector<LatencyPoint> table = {{8, 1}, {16, 1.01}, {32, 2}, {64, 2.03}};
  EXPECT_EQ(free_rows(table, 0.02, 3), 16);
  EXPECT_EQ(free_rows(table, 0, 3), 8);
  EXPECT_EQ(free_rows(table, 0.02, 8), 16);
  EXPECT_EQ(free_rows(table, 0.02, 9), 16);
  EXPECT_EQ(free_rows(table, 0.02, 17), 64);
  EXPECT_EQ(free_rows(table, 0.02, 64), 64);
  EXPECT_EQ(free_rows(table, 0.02, 65), 65) << "the table does not say";
  EXPECT_EQ(free_rows({}, 0.02, 5), 5);
}

TEST(Speculation, BudgetsBoundTheLookAhead) {
  const Canvas canvas = lay_generation(std::vector<int32_t>(4, 1), 96, test_ids());
  const Block block = {4, 36, 32};
  std::vector<int32_t> rows(32);
  std::iota(rows.begin(), rows.end(), 4);
  const auto ahead = [&](DecodeOptions o, int64_t masks = 3, int64_t keys = 100) {
    o.mbsd = true;
    const auto positions = Speculation(o, test_ids()).lookahead(canvas, block, keys, masks, rows);
    EXPECT_TRUE(positions.empty() || positions.front() == 36);
    return positions.size();
  };
  EXPECT_EQ(ahead({}), 32u);
  EXPECT_EQ(ahead({}, 4), 0u) << "strictly fewer masks than the trigger";
  EXPECT_EQ(ahead({}, 3, 40), 4u) << "attention ends";
  EXPECT_EQ(ahead({SpeculationOptions{.latency_table = {{40, 1}}}}), 8u);
  EXPECT_EQ(ahead({SpeculationOptions{.latency_table = {{20, 1}}}}), 0u);
  EXPECT_EQ(ahead({SpeculationOptions{.latency_table = {{32, 1}, {48, 1.01}, {64, 3}}}}), 16u);
  EXPECT_EQ(ahead({SpeculationOptions{.latency_table = {{32, 1}, {48, 2}}}}), 0u) << "nothing is free";
  // Rows that are computed anyway cost nothing.
  rows.resize(96);
  std::iota(rows.begin(), rows.end(), 4);
  EXPECT_EQ(ahead({SpeculationOptions{.latency_table = {{20, 1}}}}), 32u);
}

TEST(Speculation, NotBehindADecidedEnd) {
  const Outcome o = run_script(speculate(), kPrompt, [](const StepPlan&, int64_t forward, int32_t p) {
    return Prediction{.position = p,
                      .token = p == 3 ? kEot : 2,
                      .probability = p < 4   ? 0.95
                                     : p < 6 ? (forward == 0 ? 0.3 : 0.95)
                                             : 0.8};
  });
  EXPECT_THAT(o.plans[1].logits, ElementsAre(4, 5));
  EXPECT_EQ(o.stats.counters.drafts_proposed, 0);
}

}  // namespace
}  // namespace llada::decode
