// Counter-based random numbers: a function of their key, inside the open interval.
#include "base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

namespace llada {
namespace {

TEST(Random, FollowsSplitMix64) {
  // The first outputs of the published generator from state 0 and 1234567.
  EXPECT_EQ(mix64(kRandomStep), 0xe220a8397b1dcdafu);
  EXPECT_EQ(mix64(2 * kRandomStep), 0x6e789e6aa1b965f4u);
  EXPECT_EQ(mix64(1234567 + kRandomStep), 6457827717110365317u);
}

TEST(Random, StaysInsideTheOpenInterval) {
  for (uint64_t i = 0; i < 100000; ++i) {
    const double u = uniform(i, i % 7, i % 11, i % 13);
    ASSERT_GT(u, 0.0);
    ASSERT_LT(u, 1.0);
    ASSERT_TRUE(std::isfinite(std::log(-std::log(u))));
  }
}

TEST(Random, EveryCoordinateMatters) {
  std::set<double> seen;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    for (uint64_t forward = 0; forward < 6; ++forward) {
      for (uint64_t position = 0; position < 6; ++position) {
        for (uint64_t token : {uint64_t{0}, uint64_t{1}, uint64_t{2}, kPositionDraw}) {
          seen.insert(uniform(seed, forward, position, token));
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), 6u * 6 * 6 * 4);
}

TEST(Random, IsUniformAndUncorrelated) {
  const int n = 200000;
  double sum = 0, squares = 0, product = 0;
  std::array<int, 16> cells = {};
  for (int i = 0; i < n; ++i) {
    const double u = uniform(3, 0, static_cast<uint64_t>(i / 100), static_cast<uint64_t>(i % 100));
    const double next = uniform(3, 1, static_cast<uint64_t>(i / 100), static_cast<uint64_t>(i % 100));
    sum += u;
    squares += u * u;
    product += u * next;
    ++cells[static_cast<size_t>(u * 16)];
  }
  EXPECT_NEAR(sum / n, 1.0 / 2, 0.003);
  EXPECT_NEAR(squares / n, 1.0 / 3, 0.003);
  EXPECT_NEAR(product / n, 1.0 / 4, 0.003);
  for (const int count : cells) EXPECT_NEAR(count, n / 16, 500);
}

}  // namespace
}  // namespace llada
