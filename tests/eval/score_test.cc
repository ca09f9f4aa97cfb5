// What is counted beside each strategy: intervals, distances, log-probabilities. Values are worked by hand.
#include "eval/score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace llada::eval {
namespace {

using Tokens = std::vector<int32_t>;

TEST(EditDistance, CountsInsertedDeletedAndReplacedTokens) {
  EXPECT_EQ(token_edit_distance(Tokens{}, Tokens{}), 0);
  EXPECT_EQ(token_edit_distance(Tokens{1, 2, 3}, Tokens{1, 2, 3}), 0);
  EXPECT_EQ(token_edit_distance(Tokens{1, 2, 3}, Tokens{}), 3);
  EXPECT_EQ(token_edit_distance(Tokens{1, 2, 3}, Tokens{2, 3, 4}), 2);  // one deleted, one inserted
  EXPECT_EQ(token_edit_distance(Tokens{1, 9, 3, 4}, Tokens{1, 2, 3}), 2);
}

TEST(EditDistance, IsAMetric) {
  std::mt19937 random(1);
  const auto some = [&] {
    Tokens tokens(random() % 7);
    for (int32_t& t : tokens) t = static_cast<int32_t>(random() % 3);
    return tokens;
  };
  for (int i = 0; i < 500; ++i) {
    const Tokens a = some(), b = some(), c = some();
    const int64_t ab = token_edit_distance(a, b);
    EXPECT_EQ(ab, token_edit_distance(b, a));
    EXPECT_EQ(ab == 0, a == b);
    EXPECT_LE(token_edit_distance(a, c), ab + token_edit_distance(b, c));
  }
}

TEST(Paired, KnownDifference) {
  // 3 won, 9 lost of 100: -6 points; with half a count in each cell -6/102 +- 1.96 * sqrt(13 - 36/102) / 102.
  const auto d = paired95(3, 9, 100);
  EXPECT_NEAR(d.value, -0.06, 1e-12);
  EXPECT_NEAR(d.low, -0.12715845, 1e-7);
  EXPECT_NEAR(d.high, 0.00951139, 1e-7);
}

TEST(Paired, EqualRunsStillLeaveDoubt) {
  const auto d = paired95(0, 0, 200);
  EXPECT_EQ(d.value, 0);
  EXPECT_LT(d.low, 0);
  EXPECT_EQ(d.low, -d.high);
  EXPECT_LT(d.high, 0.01);
}

TEST(LogProbability, OfASoftmax) {
  const std::vector<float> logits = {0.0f, std::log(2.0f), std::log(5.0f)};
  EXPECT_NEAR(log_probability(logits, 1), std::log(2.0 / 8), 1e-7);
  const std::vector<float> far = {-1000, 1000, 999};
  EXPECT_NEAR(log_probability(far, 1), -std::log1p(std::exp(-1.0)), 1e-12);
  EXPECT_NEAR(log_probability(far, 0), -2000 - std::log1p(std::exp(-1.0)), 1e-9);
}

TEST(Score, AddsUp) {
  Score a{.n = 1, .right = 1, .nfe = 4, .seconds = 0.5, .cpu_seconds = 0.25, .compared = 1, .edit_distance = 3};
  a.likelihood = {-2, 4};
  Score sum = a;
  sum += a;
  EXPECT_EQ(sum.n, 2);
  EXPECT_EQ(sum.mean(sum.nfe), 4);
  EXPECT_EQ(sum.edit_distance, 6);
  EXPECT_EQ(sum.cpu_seconds, 0.5);
  EXPECT_EQ(sum.likelihood.tokens, 8);
  EXPECT_EQ(sum.likelihood.per_token(), -0.5);
}

}  // namespace
}  // namespace llada::eval
