// Routing rules on hand-worked scores.
#include "devices/routing.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

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

}  // namespace
}  // namespace llada
