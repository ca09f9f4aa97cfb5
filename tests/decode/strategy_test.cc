// Whole runs on scripted predictions: progress, order, early stop, guidance, infilling.
#include "decode/strategy.h"

#include <gmock/gmock.h>

#include <map>

#include "decode/script.h"

namespace llada::decode {
namespace {

using testing::ElementsAre;
using testing::Pair;
using Step = std::vector<std::pair<int32_t, int32_t>>;

// The same token and probability at a position in every step.
Script table(std::map<int32_t, std::pair<int32_t, double>> rows) {
  return [rows](const StepPlan&, int64_t, int32_t position) {
    const auto& [token, probability] = rows.at(position);
    return Prediction{.position = position, .token = token, .probability = probability, .entropy = 1 - probability};
  };
}

// Blocks [2, 6) and [6, 9); the second would win every step if it were looked at.
const Script kTable =
    table({{2, {0, 0.5}}, {3, {1, 0.8}}, {4, {2, 0.8}}, {5, {3, 0.2}}, {6, {4, 1}}, {7, {5, 0.9}}, {8, {6, 0.95}}});

std::vector<Step> trace(DecodeOptions options) {
  options.gen_length = 7;
  options.block_length = 4;
  return run_script(options, kPrompt, kTable).trace;
}

TEST(Strategy, OneTokenPerStepTakesTheBestTiesFirst) {
  EXPECT_THAT(trace({}), ElementsAre(Step{{3, 1}}, Step{{4, 2}}, Step{{2, 0}}, Step{{5, 3}}, Step{{6, 4}}, Step{{8, 6}},
                                     Step{{7, 5}}));
}

TEST(Strategy, ScheduleTakesItsNumber) {
  // 4 and 3 masks, 3 steps: one more than the blocks, to share over 3 and 2 masks; it falls to the second.
  EXPECT_THAT(trace({LengthOptions{.steps = 3}}),
              ElementsAre(Step{{2, 0}, {3, 1}, {4, 2}, {5, 3}}, Step{{6, 4}, {8, 6}}, Step{{7, 5}}));
}

TEST(Strategy, TheThresholdIsEnoughAndItAlwaysMoves) {
  const DecodeOptions options = {AcceptanceOptions{.acceptance = Acceptance::threshold, .threshold = 0.8}};
  EXPECT_THAT(trace(options),
              ElementsAre(Step{{3, 1}, {4, 2}}, Step{{2, 0}}, Step{{5, 3}}, Step{{6, 4}, {7, 5}, {8, 6}}));
}

TEST(Strategy, FactorAndEntropy) {
  // Second needs 2/3, third 3/4: 0.8, 0.8, then 0.5 fails; then 0.5 and 0.2 < 2/3; 1, 0.95, 0.9 all hold.
  EXPECT_THAT(trace({AcceptanceOptions{.acceptance = Acceptance::factor}}),
              ElementsAre(Step{{3, 1}, {4, 2}}, Step{{2, 0}}, Step{{5, 3}}, Step{{6, 4}, {7, 5}, {8, 6}}));
  // Entropies 0.5 0.2 0.2 0.8: sums before 0, 0.2, 0.4, 0.9; bound 0.3. Then 0, 0.05, 0.1.
  EXPECT_THAT(trace({AcceptanceOptions{.acceptance = Acceptance::entropy, .entropy_bound = 0.3}}),
              ElementsAre(Step{{3, 1}, {4, 2}}, Step{{2, 0}}, Step{{5, 3}}, Step{{6, 4}, {7, 5}, {8, 6}}));
}

TEST(Strategy, AGateThatNothingReachesChangesNothing) {
  for (const Acceptance rule : {Acceptance::threshold, Acceptance::factor, Acceptance::entropy}) {
    DecodeOptions options = {AcceptanceOptions{.acceptance = rule, .threshold = 0.4}};
    const auto without = trace(options);
    options.entropy_gate = 100;
    EXPECT_EQ(trace(options), without);
    options.entropy_gate = 1e-9;
    EXPECT_GE(trace(options).size(), without.size());
  }
}

TEST(Strategy, AsksOnlyForTheMasksOfTheBlock) {
  const Outcome outcome = run_script({LengthOptions{.gen_length = 7, .block_length = 4}}, kPrompt, kTable);
  EXPECT_THAT(outcome.plans[0].logits, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(outcome.plans[2].logits, ElementsAre(2, 5));
  EXPECT_THAT(outcome.plans[4].logits, ElementsAre(6, 7, 8));
  EXPECT_EQ(outcome.plans[4].block_begin, 6);
  EXPECT_EQ(outcome.plans[4].block_end, 9);
  EXPECT_EQ(outcome.stats.logit_rows, 4 + 3 + 2 + 1 + 3 + 2 + 1);
  EXPECT_EQ(outcome.stats.rows, 7 * 9);
}

// A mask is a mask whatever its id, also the first of the vocabulary.
TEST(Strategy, TheMaskMayBeTokenZero) {
  const SpecialIds ids = {.mask = 0, .eos = kEos, .eot = kEot, .end_ids = {kEos, kEot}};
  const Canvas canvas = lay_generation(kPrompt, 4, ids);
  EXPECT_EQ(count_masked(canvas), 4);
  DecodeOptions options;
  options.gen_length = 4;
  const auto strategy = make_strategy(options, ids, canvas);
  ASSERT_TRUE(strategy) << strategy.error().message;
  EXPECT_EQ((*strategy)->plan(canvas).logits, (std::vector<int32_t>{2, 3, 4, 5}));
  SpecialIds none = ids;
  none.mask = -1;
  const auto refused = make_strategy(options, none, canvas);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "mask token: found id -1 (canvas 0), needed the model's mask token");
}

TEST(Strategy, BlockLongerThanTheGenerationIsOneBlock) {
  const Outcome outcome =
      run_script({LengthOptions{.gen_length = 7, .block_length = 1000, .steps = 1}}, kPrompt, kTable);
  EXPECT_EQ(outcome.stats.nfe, 1);
  EXPECT_THAT(outcome.canvas.tokens, ElementsAre(1, 1, 0, 1, 2, 3, 4, 5, 6));
}

TEST(Strategy, ConfidenceOfAnEditIsTheModelsProbability) {
  DecodeOptions options = {LengthOptions{.gen_length = 7, .block_length = 7, .steps = 1},
                           AcceptanceOptions{.acceptance = Acceptance::random}};
  Canvas canvas = lay_generation(kPrompt, 7, test_ids());
  auto strategy = *make_strategy(options, test_ids(), canvas);
  ScriptRunner runner(kTable);
  std::vector<double> confidences;
  ASSERT_TRUE(denoise(canvas, *strategy, runner, [&](const StepEvent& event) {
    for (const Edit& edit : event.edits) confidences.push_back(edit.confidence);
    return true;
  }));
  EXPECT_THAT(confidences, ElementsAre(0.5, 0.8, 0.8, 0.2, 1, 0.9, 0.95));
}

TEST(Strategy, RandomOrderFollowsTheSeedAlone) {
  DecodeOptions options = {LengthOptions{.gen_length = 40, .block_length = 20},
                           AcceptanceOptions{.acceptance = Acceptance::random}, SamplingOptions{.seed = 1},
                           EndingOptions{.early_stop = EarlyStop::none}};
  const auto position_order = [&](uint64_t script) {
    std::vector<int32_t> order;
    for (const Step& step : run_script(options, kPrompt, random_script(script)).trace)
      order.push_back(step.at(0).first);
    return order;
  };
  const auto first = position_order(1);
  EXPECT_EQ(position_order(1), first);
  EXPECT_EQ(position_order(2), first) << "probabilities have no say";
  EXPECT_FALSE(std::ranges::is_sorted(first.begin(), first.begin() + 20));
  options.seed = 2;
  EXPECT_NE(position_order(1), first);
}

TEST(Strategy, RandomOrderTakesTheHighestDraws) {
  const DecodeOptions options = {LengthOptions{.gen_length = 12, .block_length = 6, .steps = 6},
                                 AcceptanceOptions{.acceptance = Acceptance::random}, SamplingOptions{.seed = 9},
                                 EndingOptions{.early_stop = EarlyStop::none}};
  const Outcome outcome = run_script(options, kPrompt, random_script(0));
  ASSERT_EQ(outcome.trace.size(), 6u);
  for (uint64_t forward = 0; forward < 6; ++forward) {
    std::vector<std::pair<double, int32_t>> draws;
    for (const int32_t p : outcome.plans[forward].logits) {
      draws.emplace_back(-uniform(9, forward, static_cast<uint64_t>(p), kPositionDraw), p);
    }
    std::ranges::sort(draws);
    std::vector<int32_t> expected = {draws[0].second, draws[1].second}, got;
    std::ranges::sort(expected);
    for (const auto& [position, token] : outcome.trace[forward]) got.push_back(position);
    EXPECT_EQ(got, expected);
  }
}

TEST(Strategy, GuidanceMasksThePromptInTheSecondStream) {
  const DecodeOptions options = {LengthOptions{.gen_length = 4, .block_length = 2}, SamplingOptions{.cfg_scale = 1.5},
                                 EndingOptions{.early_stop = EarlyStop::none}, CacheOptions{.kv = KvChoice::dual}};
  const Outcome outcome = run_script(options, std::vector<int32_t>{1, 2, 3}, random_script(3));
  ASSERT_EQ(outcome.plans.size(), 4u);
  const StepPlan& first = outcome.plans[0];
  EXPECT_EQ(first.cfg_scale, 1.5);
  EXPECT_THAT(first.inputs, ElementsAre(1, 2, 3, kMask, kMask, kMask, kMask));
  EXPECT_THAT(first.unconditional, ElementsAre(kMask, kMask, kMask, kMask, kMask, kMask, kMask));
  const auto [position, token] = outcome.trace[0][0];
  const StepPlan& second = outcome.plans[1];
  EXPECT_THAT(second.rows, ElementsAre(3, 4));
  EXPECT_EQ(second.unconditional, second.inputs) << "generated tokens are in both streams";
  EXPECT_EQ(second.unconditional[static_cast<size_t>(position - 3)], token);
  EXPECT_EQ(outcome.stats.nfe, 4);
  EXPECT_EQ(outcome.stats.rows, 2 * (7 + 2 + 7 + 2));
  EXPECT_EQ(outcome.stats.logit_rows, 2 * (2 + 1 + 2 + 1));
}

TEST(Strategy, InfillFillsTheGapsAndNothingElse) {
  const std::vector<int32_t> text = {0, 1, 2, 3, 4, 5, 6, 0, 1, 2}, gaps = {1, 3, 4, 8};
  const Canvas canvas = *lay_infill(text, gaps, test_ids());
  // Blocks [1, 5) with three masks and [5, 9) with one; two steps for the first, one for the second.
  const Outcome outcome = run_script({LengthOptions{.block_length = 4, .steps = 3}}, canvas,
                                     table({{1, {6, 0.3}}, {3, {kEos, 0.9}}, {4, {5, 0.6}}, {8, {3, 1}}}));
  EXPECT_THAT(outcome.trace, ElementsAre(Step{{3, kEos}, {4, 5}}, Step{{1, 6}}, Step{{8, 3}}))
      << "an end token stops nothing";
  EXPECT_THAT(outcome.canvas.tokens, ElementsAre(0, 6, 2, kEos, 5, 5, 6, 0, 3, 2));
  EXPECT_THAT(outcome.plans[0].logits, ElementsAre(1, 3, 4));
  EXPECT_THAT(outcome.plans[0].rows, testing::SizeIs(10));
  EXPECT_FALSE(outcome.stats.stopped_early);
}

TEST(Strategy, EarlyStopsInOrder) {
  // Blocks of 4; an end token at 4, the last of its block to be decided is 5.
  const Script script = table({{2, {0, 0.9}},
                               {3, {1, 0.8}},
                               {4, {kEot, 0.7}},
                               {5, {3, 0.6}},
                               {6, {4, 0.9}},
                               {7, {5, 0.9}},
                               {8, {6, 0.9}},
                               {9, {6, 0.9}}});
  const auto steps = [&](EarlyStop stop) {
    const Outcome outcome = run_script(
        {LengthOptions{.gen_length = 8, .block_length = 4}, EndingOptions{.early_stop = stop}}, kPrompt, script);
    EXPECT_EQ(outcome.stats.stopped_early, stop != EarlyStop::none);
    return outcome.stats.nfe;
  };
  EXPECT_EQ(steps(EarlyStop::answer), 3);
  EXPECT_EQ(steps(EarlyStop::block), 4);
  EXPECT_EQ(steps(EarlyStop::none), 8);
}

TEST(Strategy, EndTokenAheadOfAMaskDoesNotStop) {
  const Script script = table({{2, {0, 0.1}}, {3, {kEos, 0.9}}, {4, {1, 0.5}}, {5, {1, 0.4}}});
  const Outcome outcome = run_script({LengthOptions{.gen_length = 4, .block_length = 4}}, kPrompt, script);
  EXPECT_EQ(outcome.stats.nfe, 4) << "position 2 is decided last";
  EXPECT_FALSE(outcome.stats.stopped_early);
}

}  // namespace
}  // namespace llada::decode
