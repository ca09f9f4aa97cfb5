// Routing rules on hand-worked scores.
#include "devices/routing.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "base/random.h"
#include "devices/routing_rule.h"

namespace llada {
namespace {

using testing::ElementsAre;
using testing::FloatNear;

float ln(double x) { return static_cast<float>(std::log(x)); }

TEST(Routing, SoftmaxOverAllExpertsIsNotRenormalisedUnlessAsked) {
  Op op{.kind = OpKind::route, .experts = 4, .experts_used = 2, .parameter = 1};
  const std::vector<float> scores = {ln(1), ln(4), ln(2), ln(3)};  // probabilities 0.1 0.4 0.2 0.3
  EXPECT_THAT(routed(op, scores), ElementsAre(0, FloatNear(0.4f, 1e-6f), 0, FloatNear(0.3f, 1e-6f)));
  op.renormalise = 1;
  EXPECT_THAT(routed(op, scores), ElementsAre(0, FloatNear(4.f / 7, 1e-6f), 0, FloatNear(3.f / 7, 1e-6f)));
}

TEST(Routing, TiesGoToTheLowerExpert) {
  const Op op{.kind = OpKind::route, .experts = 4, .experts_used = 2, .parameter = 1};
  EXPECT_THAT(routed(op, {1, 1, 1, 1}), ElementsAre(0.25f, 0.25f, 0, 0));
}

TEST(Routing, TheBiasChoosesButDoesNotWeigh) {
  const Op op{
      .kind = OpKind::route, .sigmoid = 1, .renormalise = 1, .experts = 3, .experts_used = 2, .parameter = 2.5f};
  const float bias[] = {0, 0, 0.9f};
  // Ranks 0.8, 0.6, 1.1: experts 2 and 0 with gates 2.5 * {0.2, 0.8} / 1.0.
  EXPECT_THAT(routed(op, {logit(0.8), logit(0.6), logit(0.2)}, bias),
              ElementsAre(FloatNear(2.0f, 1e-5f), 0, FloatNear(0.5f, 1e-5f)));
}

TEST(Routing, OnlyTheBestGroupsCompete) {
  const Op op{.kind = OpKind::route,
              .sigmoid = 1,
              .groups = 3,
              .groups_used = 1,
              .experts = 6,
              .experts_used = 2,
              .parameter = 1};
  // Worth 1.0, 1.2 and 1.1: the single best expert, 0.95, stands in a group that loses.
  EXPECT_THAT(routed(op, {logit(0.95), logit(0.05), logit(0.6), logit(0.6), logit(0.7), logit(0.4)}),
              ElementsAre(0, 0, FloatNear(0.6f, 1e-6f), FloatNear(0.6f, 1e-6f), 0, 0));
}

// A score that is not finite must not look like a choice among the others: the row becomes NaN, by one gate.
TEST(Routing, DamagedScoresAreNotRoutedPast) {
  const float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  for (const uint8_t sigmoid : {0, 1})
    for (const uint8_t groups : {1, 3})
      for (const float bad : {kNan, kInfinity, -kInfinity})
        for (size_t at = 0; at < 6; ++at) {
          Op op{.kind = OpKind::route, .sigmoid = sigmoid, .experts = 6, .experts_used = 2, .parameter = 1};
          op.groups = groups, op.groups_used = 1;
          std::vector<float> scores = {0.5f, 2, -1, 0, 1, -2}, none(6, 0.0f);
          const auto expect_one_nan = [](const std::vector<float>& gates, const char* what) {
            EXPECT_EQ(std::ranges::count_if(gates, [](float g) { return g != 0; }), 1) << what;
            EXPECT_EQ(std::ranges::count_if(gates, [](float g) { return std::isnan(g); }), 1) << what;
          };
          none[at] = bad;
          expect_one_nan(routed(op, scores, none.data()), "bias");
          scores[at] = bad;
          expect_one_nan(routed(op, scores), "score");
        }
}

// A row by the rule, on so many lanes, in ascending order of lanes or in descending.
template <int kLanes>
std::vector<float> on_lanes(const RoutingRule& rule, const std::vector<float>& scores, const float* bias, bool up) {
  struct Lanes {
    bool up;
    void each(const std::function<void(int)>& f) const {
      for (int t = 0; t < kLanes; ++t) f(up ? t : kLanes - 1 - t);
    }
  };
  std::vector<float> floats(3 * scores.size(), -7), gates(scores.size(), -1);
  std::array<int32_t, kLanes> best{};
  double sum = -1;
  float* const at = floats.data();
  route_by<kLanes>(rule, scores.data(), bias, {&sum, at, at + scores.size(), at + 2 * scores.size(), best.data()},
                   gates.data(), Lanes{up});
  return gates;
}

// The same by sorting, in plain words: groups by the sum of their two best, then experts, of equals the lower first.
std::vector<float> sorted_out(const RoutingRule& rule, const std::vector<float>& scores, const float* bias) {
  const size_t n = scores.size();
  std::vector<float> p(n), rank(n), gates(n, 0.0f);
  double all = 0;
  const float max = std::ranges::max(scores);
  for (size_t i = 0; i < n; ++i)
    all += p[i] = rule.sigmoid ? 1.0f / (1.0f + std::exp(-scores[i])) : std::exp(scores[i] - max);
  for (size_t i = 0; i < n; ++i) {
    if (!rule.sigmoid) p[i] = static_cast<float>(p[i] / all);
    rank[i] = p[i] + (bias != nullptr ? bias[i] : 0.0f);
  }
  const auto descending = [](std::vector<size_t>& of, const std::vector<float>& by) {
    std::ranges::stable_sort(of, [&](size_t a, size_t b) { return by[a] > by[b]; });
  };
  const size_t groups = static_cast<size_t>(std::max(rule.groups, 1)), size = n / groups;
  std::vector<float> worth(groups);
  std::vector<size_t> best_groups(groups), in_race;
  for (size_t g = 0; g < groups; ++g) {
    best_groups[g] = g;
    std::vector<float> of(rank.begin() + static_cast<long>(g * size), rank.begin() + static_cast<long>((g + 1) * size));
    std::ranges::sort(of, std::greater{});
    worth[g] = size > 1 ? of[0] + of[1] : of[0];
  }
  descending(best_groups, worth);
  if (rule.groups > 1) best_groups.resize(static_cast<size_t>(rule.groups_used));
  std::ranges::sort(best_groups);
  for (const size_t g : best_groups)
    for (size_t i = g * size; i < (g + 1) * size; ++i) in_race.push_back(i);
  descending(in_race, rank);
  in_race.resize(static_cast<size_t>(rule.used));
  double sum = 0;
  for (const size_t e : in_race) sum += p[e];
  const double scale = rule.renormalise ? rule.scale / (sum + 1e-20) : double{rule.scale};
  for (const size_t e : in_race) gates[e] = static_cast<float>(p[e] * scale);
  return gates;
}

// More and fewer experts than lanes, ties between experts and between groups, scores whose exponential is 0.
TEST(Routing, EveryNumberOfLanesFindsWhatSortingFinds) {
  uint64_t at = 0;
  const auto drawn = [&](int of) { return static_cast<int>(uniform(3, at++, 0, 0) * of); };
  for (const int experts : {1, 3, 6, 16, 24, 64, 130, 256})
    for (const int groups : {1, 2, 8})
      for (int round = 0; round < 12; ++round) {
        if (experts % groups != 0) continue;
        const int groups_used = 1 + drawn(groups), most = experts / groups * (groups > 1 ? groups_used : 1);
        const RoutingRule rule{.experts = experts,
                               .used = 1 + drawn(std::min(most, 10)),
                               .groups = groups,
                               .groups_used = groups_used,
                               .scale = round % 2 == 0 ? 1.0f : 2.5f,
                               .sigmoid = drawn(2) == 0,
                               .renormalise = drawn(2) == 0};
        std::vector<float> scores, bias;
        for (int i = 0; i < experts; ++i) {
          scores.push_back(round == 0 ? 0.5f : static_cast<float>(drawn(9) - 4) / (round % 3 == 0 ? 1.0f : 7.0f));
          if (drawn(30) == 0) scores.back() = -300;
          bias.push_back(static_cast<float>(drawn(5)) / 8);
        }
        const float* with = round % 4 < 2 ? nullptr : bias.data();
        const auto expected = sorted_out(rule, scores, with);
        EXPECT_EQ(on_lanes<1>(rule, scores, with, true), expected);
        EXPECT_EQ(on_lanes<16>(rule, scores, with, false), expected);
        EXPECT_EQ(on_lanes<32>(rule, scores, with, true), expected);
        const Op op{.kind = OpKind::route,
                    .sigmoid = rule.sigmoid,
                    .renormalise = rule.renormalise,
                    .groups = static_cast<uint8_t>(groups),
                    .groups_used = static_cast<uint8_t>(groups_used),
                    .experts = static_cast<int16_t>(experts),
                    .experts_used = static_cast<int16_t>(rule.used),
                    .parameter = rule.scale};
        EXPECT_EQ(routed(op, scores, with), expected);
      }
}

// The experts of a block against a sort of each one's best rank; then every row's own among these.
TEST(Routing, RowsOfABlockChooseExpertsTogether) {
  uint64_t at = 0;
  const auto drawn = [&](int of) { return static_cast<int>(uniform(5, at++, 0, 0) * of); };
  for (const int experts : {4, 16, 256})
    for (int round = 0; round < 20; ++round) {
      const auto n = static_cast<size_t>(experts);
      const int64_t rows = 1 + drawn(9);
      const Op op{.kind = OpKind::route,
                  .sigmoid = 1,
                  .renormalise = 1,
                  .experts = static_cast<int16_t>(experts),
                  .experts_used = 2,
                  .capacity = static_cast<int16_t>(2 + drawn(experts - 2)),
                  .block = 8,
                  .parameter = 2.5f};
      std::vector<float> scores, bias;
      for (int64_t i = 0; i < rows * experts; ++i) scores.push_back(static_cast<float>(drawn(9) - 4));
      for (int i = 0; i < experts; ++i) bias.push_back(static_cast<float>(drawn(5)) / 8);
      const float* with = round % 3 == 0 ? nullptr : bias.data();
      std::vector<std::pair<float, size_t>> order;
      for (size_t e = 0; e < n; ++e) {
        float most = -9;
        for (size_t r = 0; r < static_cast<size_t>(rows); ++r)
          most = std::max(most, 1.0f / (1.0f + std::exp(-scores[r * n + e])) + (with != nullptr ? bias[e] : 0));
        order.emplace_back(-most, e);
      }
      std::ranges::sort(order);
      std::vector<uint8_t> expected(n), allowed(n, 7);
      for (int k = 0; k < op.capacity; ++k) expected[order[static_cast<size_t>(k)].second] = 1;
      choose_together(op, scores.data(), rows, with, allowed.data());
      EXPECT_EQ(allowed, expected);
      std::vector<float> gates(n), only(scores.begin(), scores.begin() + experts), masked(bias);
      route_row(op, only.data(), with, gates.data(), allowed.data());
      if (with == nullptr) std::ranges::fill(masked, 0.0f);
      for (size_t e = 0; e < n; ++e) masked[e] += expected[e] != 0 ? 0 : -100;  // out of the race
      EXPECT_EQ(gates, routed(op, only, masked.data()));
    }
}

// A span is one sequence, whose blocks are counted from position 0.
TEST(Routing, BlocksAreOfOneSequence) {
  StepInputs inputs;
  inputs.positions = {6, 7, 8, 9, /**/ 8, 9, /**/ 0, 1, 16, 17};
  inputs.spans = {{.begin = 0, .count = 4}, {.begin = 4, .count = 2}, {.begin = 6, .count = 4}};
  std::vector<std::pair<int64_t, int64_t>> found;
  for (const BlockRows& block : blocks_of(inputs, 8)) found.emplace_back(block.begin, block.count);
  EXPECT_EQ(found, (std::vector<std::pair<int64_t, int64_t>>{{0, 2}, {2, 2}, {4, 2}, {6, 2}, {8, 2}}));
}

}  // namespace
}  // namespace llada
