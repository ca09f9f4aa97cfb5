// Rivals of sched's rules for experts: Belady's rule is the best of all on random routing, and guesses of scores name the
// last step's experts.
#include "study/moe_rivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace llada {
namespace {

LayerRouting rows_of(std::vector<int32_t> rows) {
  LayerRouting routing{std::move(rows), {}};
  for (const int32_t n : routing.rows) routing.score.push_back(static_cast<float>(n));
  return routing;
}

int64_t belady(const std::vector<LayerRouting>& steps, int32_t slots) {
  std::vector<const LayerRouting*> list;
  for (const LayerRouting& step : steps) list.push_back(&step);
  return belady_hits(list, slots);
}

TEST(Belady, KeepsWhatIsWantedNext) {
  // There: 0 and 1. Expert 2 is wanted before 1 is again, so it takes that place; 3 is wanted once and stays out.
  EXPECT_EQ(belady({rows_of({0, 0, 1, 0}), rows_of({1, 0, 0, 0}), rows_of({0, 0, 1, 1}), rows_of({1, 0, 0, 0}),
                    rows_of({0, 1, 0, 0})},
                   2),
            3);
  EXPECT_EQ(belady({}, 2), 0);
}

// Hits of one layer with every miss brought in where the rule allows, the first experts there at the start.
int64_t hits(CacheOptions options, const std::vector<LayerRouting>& steps, int32_t experts) {
  ExpertCache c(1, experts, options);
  for (int32_t e = 0; e < options.slots; ++e) c.insert({0, e}, {});
  int64_t count = 0;
  for (const LayerRouting& r : steps) {
    c.begin_pass();
    c.observe(0, r);
    for (int32_t e = 0; e < experts; ++e) {
      if (r.rows[static_cast<size_t>(e)] == 0) continue;
      if (c.resident({0, e}))
        ++count;
      else if (const auto place = c.place_for({0, e}))
        c.insert({0, e}, *place);
    }
    EXPECT_LE(c.count(0), options.slots);
  }
  return count;
}

TEST(Belady, IsBestAndSlotsHelp) {
  constexpr int kExperts = 16;
  std::vector<LayerRouting> steps;
  for (uint64_t t = 0; t < 300; ++t) {
    std::vector<int32_t> rows(kExperts, 0);
    for (uint64_t k = 0; k < 4; ++k) {
      // Slowly wandering favourites.
      const auto e =
          static_cast<size_t>(static_cast<uint64_t>(8 * uniform(5, t, k, 0) * uniform(5, t, k, 1)) + t / 20) % kExperts;
      rows[e] = 1;
    }
    steps.push_back(rows_of(std::move(rows)));
  }
  for (const int slots : {4, 8, 12}) {
    const int64_t best = belady(steps, slots);
    for (const CacheRule rule : kCacheRules) {
      const int64_t got = hits({.rule = rule, .slots = slots}, steps, kExperts);
      EXPECT_LE(got, best) << name(rule) << " " << slots;
      EXPECT_GT(got, 0);
      EXPECT_LE(got, hits({.rule = rule, .slots = slots + 4}, steps, kExperts)) << name(rule) << " " << slots;
    }
  }
}

TEST(ScoreGuesses, AreTheLastStepsExpertsWithThePresentRows) {
  ScoreGuesses scores(2, 4, {.rule = CacheRule::lru, .slots = 1});
  scores.observe(0, rows_of({9, 0, 0, 0}));
  EXPECT_THAT(scores.guess(1, rows_of({9, 0, 0, 0})).rows, testing::ElementsAre(9, 0, 0, 0)) << "no score yet";
  scores.observe(1, rows_of({0, 0, 9, 1}));
  EXPECT_THAT(scores.guess(1, rows_of({5, 3, 0, 0})).rows, testing::ElementsAre(0, 0, 5, 3));
}

}  // namespace
}  // namespace llada
