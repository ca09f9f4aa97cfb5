// Credit by hand: one forward, a second that agrees, and a runner-up that had been predicted before.
#include "decode/credit.h"

#include <gtest/gtest.h>

#include <cmath>

namespace llada::decode {
namespace {

constexpr int32_t kMask = 9;

Prediction predict(int32_t token, double probability, int32_t second, double second_probability) {
  return {.position = 0,
          .token = token,
          .probability = probability,
          .margin = probability - second_probability,
          .runner_up = second};
}

TEST(Credit, AddsUpAndDecays) {
  Credit credit(kMask);
  const double first = std::pow(0.5, 0.2), w1 = 0.5 * std::pow(1 + first, 0.7);
  EXPECT_NEAR(credit.fuse(0, predict(1, 0.5, 2, 0.3)).probability, w1 / (w1 + 0.5), 1e-12);
  const double second = 0.8 * first + std::pow(0.6, 0.2), w2 = 0.6 * std::pow(1 + second, 0.7);
  EXPECT_NEAR(credit.fuse(0, predict(1, 0.6, 2, 0.1)).probability, w2 / (w2 + 0.4), 1e-12);
  EXPECT_NEAR(credit.fuse(7, predict(1, 0.5, 2, 0.3)).probability, w1 / (w1 + 0.5), 1e-12) << "by position";
}

TEST(Credit, ARunnerUpMayOvertake) {
  for (const int32_t other : {2, 0}) {  // a vocabulary begins at 0
    Credit credit(kMask);
    for (int i = 0; i < 3; ++i) credit.fuse(0, predict(other, 0.9, 1, 0.05));
    const Prediction p = credit.fuse(0, predict(1, 0.45, other, 0.44));
    EXPECT_EQ(p.token, other);
    EXPECT_EQ(p.runner_up, 1);
    EXPECT_GT(p.probability, 0.44);
    EXPECT_GT(p.margin, 0);
    EXPECT_LE(p.probability, 1);
  }
}

TEST(Credit, NeverTurnsIntoTheMask) {
  Credit credit(kMask);
  Prediction p = predict(1, 0.01, kMask, 0.009);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(credit.fuse(0, p).token, 1);
  p.runner_up = -1;
  EXPECT_EQ(credit.fuse(0, p).token, 1);
}

}  // namespace
}  // namespace llada::decode
