// Ways of using the link, tried in the cost model: a move has to save its toll, which is found where guesses are worth
// more, and guesses are left alone where they do not save the time of asking.
#include "sched/moe_trials.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sched/unit_costs.h"

namespace llada {
namespace {

constexpr double kNothingMoves = std::numeric_limits<double>::infinity();

bool moves(const MoePlan& plan) { return std::ranges::any_of(plan.experts, &PlannedExpert::moved); }

// An expert of six rows takes the host 8. A move takes 6, and a third of the accelerator's 1 follows its last piece.
TEST(MoeTrials, AMoveHasToSaveItsToll) {
  const ExpertCosts c = unit_costs();
  const std::vector<ExpertLoad> loads = {{0, 6, false}};
  const auto plan = [&](double toll) { return plan_layer(c, loads, MoeRule::hybrid, {.toll = toll}); };
  EXPECT_TRUE(moves(plan(0)));
  EXPECT_NEAR(plan(0).makespan_s, 6 + 1. / 3, 1e-6);
  for (const double toll : {0.35, kNothingMoves}) {
    EXPECT_FALSE(moves(plan(toll))) << "6 s of the link would save 1.7";
    EXPECT_NEAR(plan(toll).makespan_s, 8, 1e-6);
  }
  EXPECT_TRUE(moves(plan(0.1)));
  const std::vector<ExpertLoad> heavy = {{0, 9, false}, {1, 9, false}};
  EXPECT_TRUE(moves(plan_layer(c, heavy, MoeRule::hybrid, {.toll = 0.7}))) << "6 s of the link save 11";
  EXPECT_FALSE(moves(plan_layer(c, heavy, MoeRule::hybrid, {.toll = kNothingMoves})));
}

// Steps of layers that each want one expert of so many rows; right: the guesses name that one. The last layer has no
// guesses to make, but was guessed about.
MoeTrials tried(MoeRule rule, int32_t steps, int32_t rows, bool right, double asking_s) {
  MoeTrials trials(unit_costs(), rule, 4);
  constexpr int32_t kLayers = 10, kAhead = 3;
  for (int32_t i = 0; i < steps * kLayers; ++i) {
    const int32_t l = i % kLayers;
    std::vector<LayerAhead> ahead;
    for (int32_t d = 1; d <= kAhead && l + d < kLayers; ++d)
      ahead.push_back({.layer = l + d, .loads = {{right ? 0 : 1, rows, false}}});
    const std::vector<ExpertLoad> wanted = {{0, rows, false}};
    trials.observe(l, wanted, ahead, 0, 0, asking_s);
  }
  return trials;
}

// The move of a layer's own saves it less than 2 s, and a guess saves the next layer 7 s of the same link.
TEST(MoeTrials, TheTollIsFoundWhereGuessesAreWorthMore) {
  EXPECT_GT(tried(MoeRule::hybrid, 20, 6, true, 0).toll(), 0);
  EXPECT_EQ(tried(MoeRule::hybrid, 20, 6, false, 0).toll(), 0) << "guesses that never come true are worth nothing";
}

TEST(MoeTrials, GuessesHaveToSaveTheTimeOfAsking) {
  for (const MoeRule rule : {MoeRule::hybrid, MoeRule::static_split, MoeRule::on_demand}) {
    EXPECT_TRUE(tried(rule, 20, 6, true, 0.5).guesses()) << name(rule);
    EXPECT_FALSE(tried(rule, 20, 6, true, 9).guesses()) << name(rule) << ": no layer takes longer without them";
    EXPECT_FALSE(tried(rule, 20, 6, false, 0.5).guesses()) << name(rule) << ": wrong ones save nothing";
    EXPECT_TRUE(tried(rule, 20, 6, false, 0).guesses()) << name(rule) << ": but they cost nothing";
  }
}

}  // namespace
}  // namespace llada
