// A toll on the link: moves that do not save it are not made, and it is found where guesses are worth more.
#include "sched/moe_toll.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sched/unit_costs.h"

namespace llada {
namespace {

constexpr double kNothingMoves = std::numeric_limits<double>::infinity();

bool moves(const MoePlan& plan) { return std::ranges::any_of(plan.experts, &PlannedExpert::moved); }

// An expert of six rows takes the host 8. A move takes 6, and a third of the accelerator's 1 follows its last piece.
TEST(LinkToll, AMoveHasToSaveIt) {
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

// The toll after layers that each want one expert of so many rows; right: the guesses name that one.
double toll_after(int32_t layers, int32_t rows, bool right) {
  const ExpertCosts c = unit_costs();
  LinkToll toll(c, 4);
  for (int32_t l = 0; l < layers; ++l) {
    std::vector<LayerAhead> ahead;
    for (int32_t d = 1; d <= 3; ++d) ahead.push_back({.layer = l + d, .loads = {{right ? 0 : 1, rows, false}}});
    const std::vector<ExpertLoad> wanted = {{0, rows, false}};
    toll.observe(l, wanted, ahead, 0, 0);
  }
  return toll.toll();
}

// The move of a layer's own saves it less than 2 s, and a guess saves the next layer 7 s of the same link.
TEST(LinkToll, IsFoundWhereGuessesAreWorthMore) {
  EXPECT_GT(toll_after(200, 6, true), 0);
  EXPECT_EQ(toll_after(200, 6, false), 0) << "guesses that never come true are worth nothing";
  EXPECT_EQ(toll_after(1, 6, true), 0) << "nothing is known yet";
}

}  // namespace
}  // namespace llada
