// Which expert makes room: each rule by hand, the pass that must not be evicted under, and Belady's rule as the
// best of all on random routing.
#include "sched/moe_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace llada {
namespace {

LayerRouting routing(int experts, std::initializer_list<std::pair<int, float>> chosen) {
  LayerRouting r{std::vector<int32_t>(static_cast<size_t>(experts), 0),
                 std::vector<float>(static_cast<size_t>(experts), 0)};
  for (const auto& [e, s] : chosen) r.rows[static_cast<size_t>(e)] = 1, r.score[static_cast<size_t>(e)] = s;
  return r;
}

ExpertCache cache(CacheRule rule, int slots, int experts = 4) {
  return ExpertCache(2, experts, {.rule = rule, .slots = slots});
}

void put(ExpertCache& c, std::initializer_list<int> experts) {
  for (const int e : experts) c.insert({0, e}, *c.place_for({0, e}, true));
}

TEST(MoeCache, MrsFollowsTheScoresWithItsWeight) {
  ExpertCache c(1, 4, {.rule = CacheRule::mrs, .slots = 2, .alpha = 0.5, .top_p = 2});
  c.begin_pass();
  c.observe(0, routing(4, {{0, 0.4f}, {1, 0.3f}, {2, 0.2f}, {3, 0.1f}}));
  EXPECT_NEAR(c.worth({0, 0}), 0.2, 1e-6);
  EXPECT_NEAR(c.worth({0, 1}), 0.15, 1e-6);
  EXPECT_EQ(c.worth({0, 2}), 0) << "only the two highest count";
  c.begin_pass();
  c.observe(0, routing(4, {{3, 0.8f}, {1, 0.1f}}));
  EXPECT_NEAR(c.worth({0, 0}), 0.1, 1e-6) << "decays";
  EXPECT_NEAR(c.worth({0, 1}), 0.125, 1e-6);
  EXPECT_NEAR(c.worth({0, 3}), 0.4, 1e-6);
  put(c, {0, 1});
  // 1 is in use by this pass; 0 makes room for what is worth more, and for nothing else.
  ASSERT_TRUE(c.place_for({0, 3}));
  EXPECT_EQ(c.place_for({0, 3})->victim, (ExpertId{0, 0}));
  EXPECT_FALSE(c.place_for({0, 2}));
  EXPECT_TRUE(c.place_for({0, 2}, true)) << "unless it is wanted anyway";
}

TEST(MoeCache, TheVictimIsNeverAnExpertOfThePresentPass) {
  for (const CacheRule rule : kCacheRules) {
    ExpertCache c = cache(rule, 2);
    c.begin_pass();
    put(c, {0, 1});
    c.observe(0, routing(4, {{0, 0.1f}, {1, 0.1f}, {2, 0.9f}}));
    EXPECT_FALSE(c.place_for({0, 2}, true)) << name(rule);
    c.begin_pass();
    EXPECT_TRUE(c.place_for({0, 2}, true)) << name(rule);
    c.protect({0, 0});
    EXPECT_EQ(c.place_for({0, 2}, true)->victim, (ExpertId{0, 1})) << name(rule);
  }
}

TEST(MoeCache, RulesDisagreeWhereTheyShould) {
  // 0: often but long ago. 1: once, just now. 2: newcomer.
  const auto history = [](ExpertCache& c) {
    put(c, {0, 1});
    for (int i = 0; i < 5; ++i) c.begin_pass(), c.observe(0, routing(4, {{0, 0.5f}}));
    c.begin_pass(), c.observe(0, routing(4, {{1, 0.5f}}));
    c.begin_pass(), c.observe(0, routing(4, {{2, 0.5f}}));
  };
  ExpertCache lru = cache(CacheRule::lru, 2), lfu = cache(CacheRule::lfu, 2), classes = cache(CacheRule::class_lru, 2);
  for (ExpertCache* c : {&lru, &lfu, &classes}) history(*c);
  EXPECT_EQ(lru.place_for({0, 2})->victim, (ExpertId{0, 0}));
  EXPECT_EQ(lfu.place_for({0, 2}, true)->victim, (ExpertId{0, 1}));
  EXPECT_FALSE(lfu.place_for({0, 2})) << "used as often as what it would replace";
  // Ages 2 and 1; five uses are class 2, one is class 1: 2/4 against 1/2 keeps the later of equals.
  EXPECT_GE(classes.worth({0, 0}), classes.worth({0, 1}));
}

TEST(MoeCache, SlotsBelongToALayerOrToAll) {
  ExpertCache own = cache(CacheRule::lru, 1);
  own.insert({0, 0}, *own.place_for({0, 0}));
  EXPECT_TRUE(own.full(0));
  EXPECT_FALSE(own.full(1));
  EXPECT_EQ(own.place_for({0, 1})->victim, (ExpertId{0, 0}));
  ExpertCache shared(2, 4, {.rule = CacheRule::lru, .slots = 1, .shared = true});
  shared.insert({0, 0}, *shared.place_for({0, 0}));
  shared.insert({0, 1}, *shared.place_for({0, 1}));
  EXPECT_EQ(shared.count(0), 2);
  shared.begin_pass();
  shared.observe(0, routing(4, {{1, 1.0f}}));
  EXPECT_EQ(shared.place_for({1, 3})->victim, (ExpertId{0, 0})) << "another layer's expert makes room";
  EXPECT_FALSE(ExpertCache(1, 4, {.rule = CacheRule::lru, .slots = 0}).place_for({0, 0}, true));
}

TEST(MoeCache, NamesAreReadBack) {
  for (const CacheRule rule : kCacheRules) EXPECT_EQ(*cache_rule_from_name(name(rule)), rule);
  EXPECT_EQ(cache_rule_from_name("belady").error().message,
            "moe cache: found 'belady', needed one of mrs, lru, lfu, classlru");
}

// Hits of one layer with every miss brought in where the rule allows.
int hits(CacheOptions options, const std::vector<LayerRouting>& steps, int experts) {
  int64_t now = 0;
  std::map<int32_t, std::vector<int64_t>> uses;
  for (size_t t = 0; t < steps.size(); ++t)
    for (int32_t e = 0; e < experts; ++e)
      if (steps[t].rows[static_cast<size_t>(e)] > 0) uses[e].push_back(static_cast<int64_t>(t));
  options.next_use = [&](ExpertId id) {
    const auto& list = uses[id.expert];
    const auto next = std::ranges::upper_bound(list, now);
    return next == list.end() ? int64_t{1} << 40 : *next - now;
  };
  ExpertCache c(1, experts, options);
  int count = 0;
  for (; now < static_cast<int64_t>(steps.size()); ++now) {
    const LayerRouting& r = steps[static_cast<size_t>(now)];
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

TEST(MoeCache, BeladyIsBestAndSlotsHelp) {
  constexpr int kExperts = 16;
  std::vector<LayerRouting> steps;
  for (uint64_t t = 0; t < 300; ++t) {
    LayerRouting r = routing(kExperts, {});
    for (uint64_t k = 0; k < 4; ++k) {
      // Slowly wandering favourites.
      const auto e =
          static_cast<size_t>(static_cast<uint64_t>(8 * uniform(5, t, k, 0) * uniform(5, t, k, 1)) + t / 20) % kExperts;
      r.rows[e] = 1;
      r.score[e] = 1;
    }
    steps.push_back(std::move(r));
  }
  for (const int slots : {4, 8, 12}) {
    const int best = hits({.rule = CacheRule::belady, .slots = slots}, steps, kExperts);
    for (const CacheRule rule : kCacheRules) {
      const int got = hits({.rule = rule, .slots = slots}, steps, kExperts);
      EXPECT_LE(got, best) << name(rule) << " " << slots;
      EXPECT_GT(got, 0);
      EXPECT_LE(got, hits({.rule = rule, .slots = slots + 4}, steps, kExperts)) << name(rule) << " " << slots;
    }
  }
}

}  // namespace
}  // namespace llada
