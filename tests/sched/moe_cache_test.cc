// Which expert makes room: each rule by hand, and the pass that must not be evicted under.
#include "sched/moe_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

// Of the roots of the shares.
TEST(MoeCache, MrsFollowsTheScoresWithItsWeight) {
  ExpertCache c(1, 4, {.rule = CacheRule::mrs, .slots = 2, .alpha = 0.5, .alpha_row = 0.5});
  c.begin_pass();
  c.observe(0, routing(4, {{0, 0.64f}, {1, 0.27f}, {2, 0.05f}, {3, 0.04f}}));
  EXPECT_NEAR(c.worth({0, 0}), 0.4, 1e-6);
  EXPECT_NEAR(c.worth({0, 3}), 0.1, 1e-6);
  c.begin_pass();
  c.observe(0, routing(4, {{3, 1.6f}, {1, 0.9f}}));
  EXPECT_NEAR(c.worth({0, 0}), 0.2, 1e-6) << "decays";
  EXPECT_NEAR(c.worth({0, 3}), 0.05 + 0.4, 1e-6);
  put(c, {0, 1});
  // 1 is in use by this pass; 0 makes room for what is worth more, and for nothing else.
  ASSERT_TRUE(c.place_for({0, 3}));
  EXPECT_EQ(c.place_for({0, 3})->victim, (ExpertId{0, 0}));
  EXPECT_FALSE(c.place_for({0, 2}));
  EXPECT_TRUE(c.place_for({0, 2}, true)) << "unless it is wanted anyway";
}

TEST(MoeCache, AStepOfOneRowWeighsLess) {
  ExpertCache c(1, 4, {.rule = CacheRule::mrs, .slots = 2, .alpha = 0.5, .alpha_row = 0.2});
  c.begin_pass();
  LayerRouting r = routing(4, {{0, 0.64f}, {1, 0.36f}});
  c.observe(0, r);
  EXPECT_NEAR(c.worth({0, 0}), 0.16, 1e-6);
  c.begin_pass();
  r.rows[1] = 2;
  c.observe(0, r);
  EXPECT_NEAR(c.worth({0, 0}), 0.4 + 0.08, 1e-6);
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

}  // namespace
}  // namespace llada
