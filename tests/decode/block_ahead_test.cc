// Multi-block speculation with block-causal attention: the blocks ahead ride along in a block's last forwards.
#include <gmock/gmock.h>

#include <map>

#include "decode/block_causal.h"
#include "decode/speculation.h"

namespace llada::decode {
namespace {

using testing::ElementsAre;
using testing::Pair;

DecodeOptions ahead_options(Revision revision = Revision::none) {
  DecodeOptions o = {LengthOptions{.gen_length = 12, .block_length = 4},
                     AcceptanceOptions{.acceptance = Acceptance::threshold, .threshold = 0.8},
                     EndingOptions{.early_stop = EarlyStop::none}, CacheOptions{.kv = KvChoice::block},
                     SpeculationOptions{.mbsd = true, .mbsd_trigger = 3, .mbsd_threshold = 0.8}};
  o.revision = revision, o.stable_threshold = 0.99, o.revise_rows = 8;
  return o;
}

const std::vector<int32_t> kOneBlock = {1, 1, 1, 1};

// Blocks of 4 behind a prompt of one.
Outcome run_ahead(const DecodeOptions& options, Script script) {
  return run_script(options, lay_generation(kOneBlock, options.gen_length, ids_of(4)), std::move(script), ids_of(4));
}

// By position, one number for each forward; the last one stands for all later ones.
Script told(std::map<int32_t, std::vector<double>> of, double entropy = 0) {
  return [=](const StepPlan&, int64_t forward, int32_t p) {
    const std::vector<double>& all = of.at(p);
    return Prediction{.position = p,
                      .token = p % 7,
                      .probability = all[std::min(static_cast<size_t>(forward), all.size() - 1)],
                      .entropy = p == 7 ? entropy : 0};
  };
}

// Blocks [4, 8), [8, 12) and [12, 16).
// clang-format off
const std::map<int32_t, std::vector<double>> kAhead = {
    {4, {0.95}},            {5, {0.95}},      {6, {0.5, 0.95}},        {7, {0.5, 0.95}},
    {8, {0.1, 0.85}},       {9, {0.1, 0.81}}, {10, {0.1, 0.8, 0.95}},  {11, {0.1, 0.5, 0.95}},
    {12, {0.1, 0.5, 0.85}}, {13, {0.1, 0.9}}, {14, {0.1, 0.5, 0.85}},  {15, {0.1, 0.5, 0.81}}};
// clang-format on

TEST(BlockAhead, BlocksBeginWithTheirDrafts) {
  const Outcome o = run_ahead(ahead_options(), told(kAhead));
  ASSERT_EQ(o.plans.size(), 3u);
  EXPECT_THAT(o.plans[0].logits, ElementsAre(4, 5, 6, 7)) << "four masks: no look ahead";
  EXPECT_EQ(o.plans[0].keys, 8);
  // Two masks are left. All blocks ahead are read, and computed as a whole.
  EXPECT_EQ(o.plans[1].keys, 16);
  EXPECT_THAT(o.plans[1].rows, ElementsAre(4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_THAT(o.plans[1].logits, ElementsAre(6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_THAT(o.trace[1], ElementsAre(Pair(6, 6), Pair(7, 0), Pair(8, 1), Pair(9, 2), Pair(13, 6)))
      << "10 is not above the threshold of drafts";
  // The second block begins with two tokens and is done with the first forward of its own; so is the last, without one.
  EXPECT_THAT(o.plans[2].inputs, ElementsAre(4, 5, 6, 0, 1, 2, kMask, kMask, kMask, 6, kMask, kMask))
      << "the finished block is computed with its final tokens, and what follows from it with it";
  EXPECT_THAT(o.trace[2], ElementsAre(Pair(10, 3), Pair(11, 4), Pair(12, 5), Pair(14, 0), Pair(15, 1)));
  EXPECT_EQ(o.stats.counters.drafts_proposed, 6);
  EXPECT_EQ(o.stats.counters.drafts_accepted, 6);

  DecodeOptions without = ahead_options();
  without.mbsd = false;
  EXPECT_GT(run_ahead(without, told(kAhead)).plans.size(), 3u);
}

TEST(BlockAhead, TheGateCountsTheMasksOfTheBlock) {
  // 7 stays open in the second forward, with so many nats.
  std::map<int32_t, std::vector<double>> scenario = kAhead;
  scenario[7] = {0.5, 0.5, 0.95};
  DecodeOptions options = ahead_options();
  options.entropy_gate = 0.4;
  const Outcome held = run_ahead(options, told(scenario, 0.41)), open = run_ahead(options, told(scenario, 0.4));
  EXPECT_THAT(held.trace[1], ElementsAre(Pair(6, 6)));
  EXPECT_EQ(held.stats.counters.drafts_proposed - held.stats.counters.drafts_accepted, 3);
  EXPECT_THAT(open.trace[1], ElementsAre(Pair(6, 6), Pair(8, 1), Pair(9, 2), Pair(13, 6)));
}

// A draft has not seen the text before it. However sure it is, it is predicted again with that in sight.
TEST(BlockAhead, RevisionPredictsDraftsAgain) {
  std::map<int32_t, std::vector<double>> scenario = kAhead;
  scenario[8] = {0.1, 1};
  const Script wrong = [=, right = told(scenario)](const StepPlan& plan, int64_t forward, int32_t p) {
    Prediction prediction = right(plan, forward, p);
    if (p == 8 && forward >= 2) prediction.token = 3, prediction.probability = 0.95;
    return prediction;
  };
  const Outcome o = run_ahead(ahead_options(Revision::dual_path), wrong);
  EXPECT_THAT(o.trace[1], testing::Contains(Pair(8, 1)));
  std::vector<int32_t> tried;
  for (const Trial& trial : o.plans[2].trials) tried.push_back(trial.logits);
  EXPECT_THAT(tried, testing::Contains(8)) << "at probability 1";
  EXPECT_EQ(o.canvas.tokens[8], 3);
  EXPECT_EQ(run_ahead(ahead_options(), wrong).canvas.tokens[8], 1) << "without revision it is final";
}

TEST(BlockAhead, ADraftIsNoLessSureThanTheBlocksOwnText) {
  DecodeOptions options = ahead_options();
  options.threshold = 0.85;
  EXPECT_THAT(run_ahead(options, told(kAhead)).trace[1], ElementsAre(Pair(6, 6), Pair(7, 0), Pair(8, 1), Pair(13, 6)))
      << "9 has 0.81";
  options.acceptance = Acceptance::schedule;
  const auto trace = run_ahead(options, told(kAhead)).trace;
  EXPECT_THAT(trace[2], testing::Contains(Pair(9, 2))) << "without a threshold that of drafts counts alone";
}

TEST(BlockAhead, NotBehindADecidedEnd) {
  const Outcome o = run_ahead(ahead_options(), [](const StepPlan& plan, int64_t forward, int32_t p) {
    Prediction prediction = told(kAhead)(plan, forward, p);
    if (p == 5) prediction.token = kEot;
    return prediction;
  });
  EXPECT_EQ(o.plans[1].keys, 8);
}

TEST(BlockAhead, ATableBoundsTheRows) {
  const Canvas canvas = lay_generation(kOneBlock, 96, ids_of(4));
  const auto reach = [&](std::vector<LatencyPoint> table, int64_t rows, int64_t trigger = 5, int64_t block = 4) {
    return Speculation({.mbsd = true, .mbsd_trigger = trigger, .latency_table = std::move(table)}, ids_of(block))
        .reach(canvas, {.begin = 4, .end = 8, .masks = 4}, 8, rows);
  };
  EXPECT_EQ(reach({}, 4), 40) << "32 positions";
  EXPECT_EQ(reach({}, 4, 4), 8) << "strictly fewer masks than the trigger";
  EXPECT_EQ(reach({{16, 1}}, 4), 20) << "12 more rows";
  EXPECT_EQ(reach({{16, 1}}, 8), 16);
  EXPECT_EQ(reach({{16, 1}}, 14), 8) << "no whole block has room";
  EXPECT_EQ(reach({{16, 1}}, 17), 8) << "the table does not say";
  EXPECT_EQ(reach({{8, 1}, {16, 1.01}, {32, 2}}, 8), 16);
  EXPECT_EQ(reach({}, 64, 5, 64), 72) << "a block longer than the look ahead";
}

// Whatever is read ahead, and however far in which step: each prediction is that of full recomputation.
TEST(BlockAhead, EveryPredictionIsThatOfFullRecomputation) {
  int64_t forwards = 0, alone = 0, skipped = 0;
  for (uint64_t seed = 0; seed < 240; ++seed) {
    DecodeOptions o = ahead_options(seed % 2 ? Revision::dual_path : Revision::none);
    o.gen_length = 26, o.threshold = 0.5, o.mbsd_threshold = 0.6;
    o.mbsd_trigger = 1 + static_cast<int64_t>(seed % 5);
    if (seed % 3 == 1) o.latency_table = {{8, 1}, {12, 1.01}, {16, 2}};
    if (seed % 3 == 2) o.latency_table = {{20, 1}};
    SCOPED_TRACE(seed);
    const std::vector<int32_t> prompt(1 + seed % 7, 1);
    for (const bool mbsd : {true, false}) {
      o.mbsd = mbsd;
      Canvas canvas = lay_generation(prompt, o.gen_length, ids_of(4));
      auto strategy = *make_strategy(o, ids_of(4), canvas);
      BlockCausalModel model(seed, 4, 0, 50);
      int32_t block = 0;
      std::vector<int32_t> tokens = canvas.tokens;
      const auto stats = denoise(canvas, *strategy, model, [&](const StepEvent& event) {
        const StepPlan& plan = event.plan;
        const std::vector<int32_t> fed(tokens.begin(), tokens.begin() + plan.keys);
        tokens = event.canvas.tokens;
        for (const Prediction& p : event.predictions) {
          const Prediction whole = model.predict(fed, p.position);
          EXPECT_EQ(std::tuple(p.token, p.probability, p.entropy),
                    std::tuple(whole.token, whole.probability, whole.entropy));
        }
        skipped += plan.block_begin > block + 4 && block > 0;
        block = plan.block_begin;
        return true;
      });
      ASSERT_TRUE(stats) << stats.error().message;
      (mbsd ? forwards : alone) += stats->nfe;
    }
  }
  EXPECT_GT(skipped, 20) << "blocks that are all drafts have no forward of their own";
  EXPECT_LT(forwards * 10, alone * 9);
}

}  // namespace
}  // namespace llada::decode
