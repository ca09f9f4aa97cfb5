// The planner of a layer's experts: tables worked by hand, the simple rivals it must not lose to, and the
// optimum of small cases.
#include "sched/moe_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "sched/best_plan.h"
#include "sched/unit_costs.h"
#include "study/sim/moe_bound.h"

namespace llada {
namespace {

std::vector<int32_t> on(const MoePlan& plan, bool device) {
  std::vector<int32_t> out;
  for (const PlannedExpert& e : plan.experts)
    if (e.on_device == device) out.push_back(e.expert);
  return out;
}

TEST(MoePlan, NamesAreReadBack) {
  for (const MoeRule rule : kMoeRules) EXPECT_EQ(*moe_rule_from_name(name(rule)), rule);
  EXPECT_EQ(moe_rule_from_name("best").error().message,
            "moe plan: found 'best', needed one of hybrid, static, all-cpu, on-demand");
}

TEST(MoePlan, TimelinesOfTheRivalsByHand) {
  // Resident: 0 (5 rows), 1 (1 row). Missing: 2 (4 rows), 3 (1 row).
  const ExpertLoad loads[] = {{0, 5, true}, {1, 1, true}, {2, 4, false}, {3, 1, false}};
  const ExpertCosts c = unit_costs();
  const MoePlan fixed = plan_layer(c, loads, MoeRule::static_split);
  EXPECT_NEAR(fixed.makespan_s, 3 + 6, 1e-6);  // the host: expert 3, then 2
  EXPECT_NEAR(fixed.device_s, 2, 1e-6);
  EXPECT_EQ(fixed.link_s, 0);
  EXPECT_THAT(on(fixed, false), testing::ElementsAre(3, 2));
  EXPECT_NEAR(plan_layer(c, loads, MoeRule::all_cpu).makespan_s, 3 + 3 + 6 + 7, 1e-6);
  // Two moves end at 6 and 12; of the last product a third is left when its down matrix arrives.
  const MoePlan demand = plan_layer(c, loads, MoeRule::on_demand);
  EXPECT_NEAR(demand.makespan_s, 12 + 1.0 / 3, 1e-6);
  EXPECT_NEAR(demand.link_s, 12, 1e-6);
  EXPECT_NEAR(demand.experts[2].start_s, 2, 1e-6) << "the gate product starts with the first piece";
  EXPECT_NEAR(demand.experts[2].move_end_s, 6, 1e-6);
  // Expert 2 moves while the host computes 3.
  const MoePlan hybrid = plan_layer(c, loads, MoeRule::hybrid);
  EXPECT_NEAR(hybrid.makespan_s, 6 + 1.0 / 3, 1e-6);
  EXPECT_THAT(on(hybrid, false), testing::Contains(3));
  EXPECT_THAT(on(hybrid, true), testing::Contains(2));
}

TEST(MoePlan, TheHostTakesResidentExpertsFromTheLightEnd) {
  ExpertCosts c = unit_costs();
  c.device_expert_s = 4;
  const ExpertLoad loads[] = {{0, 9, true}, {1, 7, true}, {2, 5, true}, {3, 1, true}};
  const MoePlan plan = plan_layer(c, loads, MoeRule::hybrid);
  // 3 costs the host 3, and 2 another 7: two ends at 10 where three on the accelerator end at 12.
  EXPECT_THAT(on(plan, false), testing::ElementsAre(3, 2));
  EXPECT_THAT(on(plan, true), testing::ElementsAre(0, 1));
  EXPECT_NEAR(plan.makespan_s, 10, 1e-6);
}

TEST(MoePlan, SlicesOfOneExpertAreSharedByBothUnits) {
  // Whole: the host takes 2 + 4, a move and a product 6 1/3. Halves cost the host 2 + 2 and 2 more, the link 3.
  const ExpertLoad whole[] = {{0, 4, false}};
  EXPECT_NEAR(plan_layer(unit_costs(), whole, MoeRule::hybrid).makespan_s, 6, 1e-6);
  const ExpertCosts c = unit_costs().sliced(2);
  EXPECT_EQ(c.slices, 2);
  EXPECT_NEAR(c.move_s(), 3, 1e-9);
  const ExpertLoad halves[] = {{0, 4, false}, {1, 4, false}};
  const MoePlan plan = plan_layer(c, halves, MoeRule::hybrid);
  EXPECT_NEAR(plan.makespan_s, 4, 1e-6);
  EXPECT_EQ(std::ranges::count(plan.experts, true, &PlannedExpert::moved), 1);
  // Slices of one expert start once on either unit; those of two experts do not.
  EXPECT_NEAR(plan_layer(c, halves, MoeRule::all_cpu).makespan_s, 2 + 4, 1e-6);
  const ExpertLoad there[] = {{0, 4, true}, {1, 4, true}, {2, 4, true}};
  EXPECT_NEAR(plan_layer(c, there, MoeRule::static_split).makespan_s, 1 + 1, 1e-6);
  EXPECT_NEAR(plan_layer(c, there, MoeRule::all_cpu).makespan_s, 2 + 4 + 2 + 2, 1e-6);
}

TEST(MoePlan, KernelsThatTakeAListStartOnceForThoseThatAreThere) {
  ExpertCosts c = unit_costs();
  c.grouped = true;
  c.device_member_s = 0.25;
  const ExpertLoad loads[] = {{0, 5, true}, {1, 4, true}, {2, 3, true}, {3, 2, true, 9.0}};
  EXPECT_NEAR(plan_layer(c, std::span(loads).first(3), MoeRule::static_split).makespan_s, 1 + 2 * 0.25, 1e-6);
  EXPECT_NEAR(plan_layer(c, loads, MoeRule::static_split).makespan_s, 9 + 1, 1e-6) << "late ones start alone";
}

TEST(MoePlan, TheBoundByHand) {
  ExpertCosts c = unit_costs();  // a host expert 2 + rows, a product 1, a move 6
  const ExpertLoad one[] = {{0, 4, false}};
  EXPECT_NEAR(plan_lower_bound(c, one), 6, 1e-6) << "whole on either side";
  EXPECT_NEAR(plan_lower_bound(c, one, {}, true), 3, 1e-6) << "half on each: 6 t of the one, 6 (1 - t) of the other";
  const ExpertLoad there[] = {{0, 1, true}, {1, 1, true}, {2, 1, true}, {3, 1, true}};
  EXPECT_NEAR(plan_lower_bound(c, there), 3, 1e-6) << "3 of 4 there and the last on the host";
  c.host_first_s = 3;
  EXPECT_NEAR(plan_lower_bound(c, one, {}, true), 3 + 1.5, 1e-6) << "3 + 6 t beside 6 (1 - t)";
  c.host_first_s = 100;
  EXPECT_NEAR(plan_lower_bound(c, there), 4, 1e-6);
  c.memory_bytes_per_s = 0.5;
  EXPECT_NEAR(plan_lower_bound(c, one), 12, 1e-6) << "6 bytes are read by whoever";
}

TEST(MoePlan, TheColdFirstExpertIsPaidOnce) {
  ExpertCosts c = unit_costs();
  c.host_first_s = 10;
  const ExpertLoad loads[] = {{0, 1, false}, {1, 1, false}};
  EXPECT_NEAR(plan_layer(c, loads, MoeRule::all_cpu).makespan_s, 10 + 3 + 3, 1e-6);
  // One on each side ends at 13 or later; moving both ends at 12 1/3.
  EXPECT_NEAR(plan_layer(c, loads, MoeRule::hybrid).makespan_s, 12 + 1.0 / 3, 1e-6);
}

TEST(MoePlan, TheLinkAndTheHostShareTheMemory) {
  ExpertCosts c = unit_costs();
  c.host_expert_s = 0;
  c.host_row_s = 0;
  c.host_bytes_per_s = 6;  // alone 1 s for an expert of 6 bytes
  c.link_bytes_per_s = 6;  // the same for a move
  c.device_expert_s = 0;
  c.memory_bytes_per_s = 6;
  const ExpertLoad loads[] = {{0, 2, false}, {1, 1, false}};
  // One on each side: both at half speed; nothing is gained over the host alone, or by moving both.
  const std::vector<PlannedExpert> both = {{.expert = 0, .rows = 2, .on_device = true, .moved = true},
                                           {.expert = 1, .rows = 1}};
  const MoePlan shared = evaluate_plan(c, both, loads);
  EXPECT_NEAR(shared.makespan_s, 2, 1e-6);
  EXPECT_NEAR(plan_layer(c, loads, MoeRule::all_cpu).makespan_s, 2, 1e-6);
  c.memory_bytes_per_s = 0;
  EXPECT_NEAR(evaluate_plan(c, both, loads).makespan_s, 1, 1e-6);
  c.memory_bytes_per_s = 6, c.link_reads_memory = false;
  EXPECT_NEAR(evaluate_plan(c, both, loads).makespan_s, 1, 1e-6);
}

TEST(MoePlan, ArrivingExpertsAndLateUnitsAreWaitedFor) {
  const ExpertCosts c = unit_costs();
  const ExpertLoad loads[] = {{0, 5, true, 4.0}, {1, 20, false}};
  const MoePlan plan = plan_layer(c, loads, MoeRule::on_demand, {.host_s = 0, .device_s = 1, .link_s = 5});
  EXPECT_NEAR(plan.experts[0].start_s, 4, 1e-6);
  EXPECT_NEAR(plan.experts[1].move_start_s, 5, 1e-6);
  EXPECT_NEAR(plan.makespan_s, 11 + 1.0 / 3, 1e-6);
  EXPECT_NEAR(plan_layer(c, std::span(loads).first(1), MoeRule::all_cpu, {.host_s = 3}).makespan_s, 3 + 7, 1e-6);
}

// HybriMoE's released constants for DeepSeek-V2-Lite in decode: five of six experts go to the accelerator, three
// of them moved, one to the host.
TEST(MoePlan, TheReleasedConstantsGiveTheReleasedSplit) {
  ExpertCosts c;
  c.host_first_s = 0.79e-3;
  c.host_bytes_per_s = 1e15;
  c.host_row_s = 1e-3;
  c.device_expert_s = 0.5e-3;
  c.device_bytes_per_s = 1e15;
  c.piece_bytes = {1, 1, 1};
  c.link_bytes_per_s = 3 / 0.418e-3;
  std::vector<ExpertLoad> loads;
  for (int32_t e = 0; e < 6; ++e) loads.push_back({e, 1, e < 2});
  const MoePlan plan = plan_layer(c, loads, MoeRule::hybrid);
  EXPECT_EQ(std::ranges::count(plan.experts, true, &PlannedExpert::moved), 3);
  EXPECT_EQ(std::ranges::count(plan.experts, false, &PlannedExpert::on_device), 1);
}

struct Case {
  ExpertCosts costs;
  std::vector<ExpertLoad> loads;
  PlanStart start;
};

Case random_case(uint64_t seed, int experts) {
  uint64_t n = 0;
  const auto draw01 = [&] { return uniform(77, seed, 0, n++); };
  Case x;
  ExpertCosts& c = x.costs;
  c.host_first_s = draw01() < 0.5 ? 0 : 2 * draw01();
  c.host_expert_s = draw01();
  c.host_bytes_per_s = 1 + 8 * draw01();
  c.host_row_s = 0.3 * draw01();
  c.host_overlap = draw01() < 0.5;
  c.device_expert_s = 0.5 * draw01();
  c.device_bytes_per_s = 10 + 40 * draw01();
  c.device_row_s = 0.02 * draw01();
  c.device_row_tile = draw01() < 0.5 ? 1 : 8;
  c.device_shares_memory = draw01() < 0.2;
  c.piece_bytes = {1, 1, 1};
  c.piece_s = 0.05 * draw01();
  c.link_bytes_per_s = 0.5 + 4 * draw01();
  c.memory_bytes_per_s = draw01() < 0.5 ? 0 : 3 + 6 * draw01();
  for (int32_t e = 0; e < experts; ++e)
    x.loads.push_back({e, 1 + static_cast<int32_t>(20 * draw01() * draw01()), draw01() < 0.4});
  x.start = {.host_s = 0, .device_s = draw01() < 0.3 ? draw01() : 0, .link_s = draw01() < 0.3 ? draw01() : 0};
  return x;
}

TEST(MoePlan, EveryPlanHasEveryExpertOnce) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Case x = random_case(seed, 40);
    x.costs.grouped = seed % 3 == 1;
    if (seed % 4 == 1) x.costs = x.costs.sliced(4);
    EXPECT_LE(plan_lower_bound(x.costs, x.loads, x.start, true),
              plan_lower_bound(x.costs, x.loads, x.start) * (1 + 1e-9));
    for (const MoeRule rule : kMoeRules) {
      const MoePlan plan = plan_layer(x.costs, x.loads, rule, x.start);
      std::vector<int32_t> experts;
      for (const PlannedExpert& e : plan.experts) {
        experts.push_back(e.expert);
        const ExpertLoad& load = x.loads[static_cast<size_t>(e.expert)];
        EXPECT_EQ(e.rows, load.rows);
        EXPECT_EQ(e.moved, e.on_device && !load.resident);
        EXPECT_LE(e.end_s, plan.makespan_s);
        EXPECT_GE(e.end_s, e.start_s);
        EXPECT_GE(e.end_s, e.move_end_s);
      }
      std::ranges::sort(experts);
      ASSERT_EQ(experts.size(), x.loads.size());
      for (size_t i = 0; i < experts.size(); ++i) EXPECT_EQ(experts[i], static_cast<int32_t>(i));
      EXPECT_GE(plan.makespan_s, plan_lower_bound(x.costs, x.loads, x.start) * (1 - 1e-9)) << seed;
    }
  }
}

TEST(MoePlan, NeverLosesToItsRivals) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Case x = random_case(seed, 12);
    const double hybrid = plan_layer(x.costs, x.loads, MoeRule::hybrid, x.start).makespan_s;
    for (const MoeRule rule : {MoeRule::static_split, MoeRule::all_cpu, MoeRule::on_demand})
      EXPECT_LE(hybrid, plan_layer(x.costs, x.loads, rule, x.start).makespan_s) << seed << " " << name(rule);
  }
}

TEST(MoePlan, IsCloseToTheOptimumOfSmallCases) {
  double worst = 1, sum = 0;
  constexpr int kCases = 60;
  for (uint64_t seed = 0; seed < kCases; ++seed) {
    const Case x = random_case(1000 + seed, 6);
    const double best = best_plan(x.costs, x.loads, x.start).makespan_s;
    const double ratio = plan_layer(x.costs, x.loads, MoeRule::hybrid, x.start).makespan_s / best;
    worst = std::max(worst, ratio);
    sum += ratio;
    EXPECT_GE(best, plan_lower_bound(x.costs, x.loads, x.start) * (1 - 1e-9)) << seed;
  }
  RecordProperty("mean_over_optimum", std::to_string(sum / kCases));
  RecordProperty("worst_over_optimum", std::to_string(worst));
  EXPECT_LT(sum / kCases, 1.03);
  EXPECT_LT(worst, 1.35);
}

}  // namespace
}  // namespace llada
