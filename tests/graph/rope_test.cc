// What a published rotary rule becomes: frequencies and a magnitude. Numbers by hand, for YaRN from its formulas with
// the values that Qwen2.5's model card gives (factor 4 over 32,768 positions).
#include "graph/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "must.h"

namespace llada {
namespace {

TEST(MakeRope, FrequenciesFallByTheBase) {
  const auto rope = must(make_rope({.rotary = 8, .adjacent = true, .theta = 1e4}));
  EXPECT_EQ(rope->rotary, 8);
  EXPECT_TRUE(rope->adjacent);
  EXPECT_EQ(rope->magnitude, 1);
  ASSERT_EQ(rope->frequencies.size(), 4u);
  for (int j = 0; j < 4; ++j) EXPECT_DOUBLE_EQ(rope->frequencies[static_cast<size_t>(j)], std::pow(10.0, -j));
  const auto divided = must(make_rope({.rotary = 8, .theta = 1e4, .divisors = {1, 2, 8, 1e30f}}));
  EXPECT_DOUBLE_EQ(divided->frequencies[0], 1);
  EXPECT_DOUBLE_EQ(divided->frequencies[1], 0.05);
  EXPECT_DOUBLE_EQ(divided->frequencies[2], 0.00125);
  EXPECT_NEAR(divided->frequencies[3], 1e-33, 1e-39);
}

// Pairs 0 to 23 turn 32 times and more, pairs from 40 on less than once.
TEST(MakeRope, Yarn) {
  const RopeRule plain{.rotary = 128, .theta = 1e6};
  RopeRule rule = plain;
  rule.yarn = Yarn{.factor = 4, .original_context = 32768};
  const auto rope = make_rope(rule), base = make_rope(plain);
  ASSERT_TRUE(rope && base);
  const auto share = [&](size_t j) { return rope->frequencies[j] / base->frequencies[j]; };
  for (const size_t j : {size_t{0}, size_t{1}, size_t{22}, size_t{23}}) EXPECT_DOUBLE_EQ(share(j), 1) << j;
  EXPECT_NEAR(share(24), 1 - 0.75 / 17, 1e-12);
  EXPECT_NEAR(share(30), 1 - 0.75 * 7 / 17, 1e-12);
  EXPECT_NEAR(share(39), 1 - 0.75 * 16 / 17, 1e-12);
  for (const size_t j : {size_t{40}, size_t{41}, size_t{63}}) EXPECT_DOUBLE_EQ(share(j), 0.25) << j;
  EXPECT_NEAR(rope->magnitude, 1.138629436, 1e-9);
  rule.yarn->attention_factor = 1.0;  // Nemotron-Labs-Diffusion
  EXPECT_EQ(make_rope(rule)->magnitude, 1);
  rule.yarn->attention_factor.reset();
  rule.yarn->factor = 1;
  EXPECT_EQ(make_rope(rule)->magnitude, 1);
  EXPECT_EQ(make_rope(rule)->frequencies, base->frequencies);
}

// Contexts so short or betas so near that the ramp has no length, or lies outside of the pairs.
TEST(MakeRope, YarnWithoutARampStaysANumber) {
  for (const int64_t context : {1, 2, 100, 1 << 30})
    for (const double fast : {1e-6, 1.0, 1e6})
      for (const double slow : {1e-6, 1.0, 1e6})
        for (const int64_t rotary : {2, 4, 128}) {
          if (fast < slow) continue;
          const auto rope = must(make_rope(
              {.rotary = rotary,
               .theta = 1e4,
               .yarn = Yarn{.factor = 40, .original_context = context, .beta_fast = fast, .beta_slow = slow}}));
          for (size_t j = 0; j < rope->frequencies.size(); ++j) {
            const double f = std::pow(1e4, -2.0 * static_cast<double>(j) / static_cast<double>(rotary));
            EXPECT_LE(rope->frequencies[j], f * (1 + 1e-12));
            EXPECT_GE(rope->frequencies[j], f / 40 * (1 - 1e-12));
          }
        }
}

TEST(MakeRope, WhatGivesNoNumbersIsRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const auto refusal = [](const RopeRule& rule) { return why_not(make_rope(rule)); };
  const RopeRule good{.rotary = 8, .theta = 1e4, .yarn = Yarn{.factor = 4, .original_context = 100}};
  ASSERT_EQ(refusal(good), "");
  const auto with = [&](const auto& change) {
    RopeRule rule = good;
    change(rule);
    return refusal(rule);
  };
  for (const int64_t rotary : {-2, 0, 1, 7, 40000})
    EXPECT_NE(with([&](RopeRule& r) { r.rotary = rotary; }).find("rotary dimensions"), std::string::npos) << rotary;
  for (const double theta : {nan, infinity, 0.0, -1.0, 1.0})
    EXPECT_NE(with([&](RopeRule& r) { r.theta = theta; }).find("theta is"), std::string::npos) << theta;
  for (const double factor : {nan, infinity, 0.0, 0.5})
    EXPECT_NE(with([&](RopeRule& r) { r.yarn->factor = factor; }).find("factor is"), std::string::npos) << factor;
  for (const double factor : {nan, infinity, 0.0, -1.0})
    EXPECT_NE(with([&](RopeRule& r) { r.yarn->attention_factor = factor; }).find("attention factor is"),
              std::string::npos)
        << factor;
  EXPECT_NE(with([](RopeRule& r) { r.yarn->original_context = 0; }).find("original context"), std::string::npos);
  EXPECT_NE(with([](RopeRule& r) { r.yarn->beta_fast = 0.5; }).find("beta_fast is 0.5"), std::string::npos);
  EXPECT_NE(with([&](RopeRule& r) { r.yarn->beta_slow = nan; }).find("beta_slow nan"), std::string::npos);
  for (const double beta : {nan, infinity, -1.0})
    EXPECT_NE(with([&](RopeRule& r) { r.scale.beta = beta; }).find("queries are scaled by"), std::string::npos) << beta;
  EXPECT_NE(with([](RopeRule& r) { r.scale.period = 0; }).find("in every 0 positions"), std::string::npos);
  EXPECT_EQ(with([](RopeRule& r) { r.divisors = {1, 1, 1}; }), "rope: 3 frequency factors, 4 needed");
  EXPECT_EQ(with([](RopeRule& r) { r.divisors = {1, 0, 1, 1}; }),
            "rope: a frequency factor is 0, finite positive numbers needed");
}

}  // namespace
}  // namespace llada
