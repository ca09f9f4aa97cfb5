// Rows of logits read by classes of tokens: against sums over the whole row.
#include "tensor/class_scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/random.h"

namespace llada {
namespace {

struct Row {
  std::vector<int32_t> class_of;
  std::vector<float> logits;
};

// Some classes have one token, one has most, one none; many logits are equal.
Row random_row(size_t tokens, int32_t classes, uint32_t seed) {
  std::mt19937 random(seed);
  Row row;
  for (size_t t = 0; t < tokens; ++t) {
    const unsigned kind = random() % 4;
    const auto any = static_cast<int32_t>(random() % static_cast<unsigned>(classes - 1));
    row.class_of.push_back(kind == 0 ? -1 : kind == 1 ? any : 0);
    row.logits.push_back(static_cast<float>(random() % 4000) / 100 - 20);
  }
  return row;
}

// One class by the definitions.
ClassScore naive(const Row& row, int32_t of, const ClassReading& reading, uint64_t key) {
  ClassScore score;
  long double sum = 0, weighted = 0, heated = 0;
  double most = kImpossible;
  const auto heat = static_cast<float>(reading.confidence_heat);
  const auto each = [&](auto visit) {
    for (size_t t = 0; t < row.class_of.size(); ++t)
      if (row.class_of[t] == of) visit(static_cast<int32_t>(t), row.logits[t] / heat);
  };
  each([&](int32_t t, float v) {
    if (score.top < 0 || v > score.best) score.top = t, score.best = v;
  });
  each([&](int32_t t, float v) {
    if (t != score.top && (score.runner_up < 0 || v > score.second)) score.runner_up = t, score.second = v;
    sum += std::exp(static_cast<long double>(v));
    weighted += v * std::exp(static_cast<long double>(v));
    heated += std::exp(static_cast<long double>(v) / reading.temperature);
    const double noised = v - reading.temperature * std::log(-std::log(draw(key, static_cast<uint64_t>(t))));
    if (score.token < 0 || noised > most) most = noised, score.token = t, score.logit = v;
  });
  if (score.top < 0) return score;
  score.mass = static_cast<double>(std::log(sum));
  score.heated = static_cast<double>(std::log(heated));
  score.mean = static_cast<double>(weighted / sum);
  if (reading.temperature == 0) score.token = score.top, score.logit = score.best, score.heated = score.mass;
  return score;
}

TEST(ClassScores, AreSumsOverTheRow) {
  uint32_t seed = 0;
  for (const size_t tokens : {size_t{5}, size_t{900}, size_t{TokenClasses::kStretch}, size_t{70'001}})
    for (const double temperature : {0.0, 0.3, 1.0}) {
      const Row row = random_row(tokens, 40, ++seed);
      const TokenClasses classes(row.class_of, 40);
      const ClassReading reading{&classes, temperature, seed % 2 ? 1 : 0.7};
      RowReader reader(reading, seed);
      reader.read_all(row.logits);
      const RowScores read = reader.take();
      ASSERT_EQ(read.classes.size(), 40u);
      for (int32_t c = 0; c < 40; ++c) {
        const ClassScore expected = naive(row, c, reading, seed), found = read.classes[static_cast<size_t>(c)];
        EXPECT_EQ(found.token, expected.token) << c;
        EXPECT_EQ(found.logit, expected.logit);
        EXPECT_EQ(found.top, expected.top);
        EXPECT_EQ(found.runner_up, expected.runner_up) << c;
        if (expected.top < 0) continue;
        EXPECT_EQ(found.best, expected.best);
        EXPECT_TRUE(expected.runner_up < 0 || found.second == expected.second);
        EXPECT_NEAR(found.mass, expected.mass, 1e-11);
        EXPECT_NEAR(found.mean, expected.mean, 1e-10);
        EXPECT_NEAR(found.heated, expected.heated, 1e-9 / std::max(temperature, 0.1));
      }
    }
}

// A row that is shorter than the classes say has no scores, and one that is longer those of its first tokens.
TEST(ClassScores, RowsOfOtherLengths) {
  const Row row = random_row(300, 9, 3);
  const TokenClasses classes(row.class_of, 9);
  RowReader shorter({&classes}, 0), same({&classes}, 0), longer({&classes}, 0);
  shorter.read_all(std::span(row.logits).first(299));
  for (const ClassScore& score : shorter.take().classes) EXPECT_EQ(score.token, -1);
  same.read_all(row.logits);
  std::vector<float> more = row.logits;
  more.resize(40'000, 99);
  longer.read_all(more);
  EXPECT_EQ(longer.take(), same.take());
}

}  // namespace
}  // namespace llada
