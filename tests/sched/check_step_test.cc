// A step that names anything outside of its stores, its rows or its streams is refused before a device sees it.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "memory/kv_store.h"
#include "sched/executor.h"

namespace llada {
namespace {

constexpr KvGeometry kNeeded{2, 2, 8};

TEST(CheckStep, FindsEveryDamage) {
  KvStore first = *KvStore::create({.layers = 2, .sequences = 2, .kv_heads = 2, .head_dim = 8, .positions = 9});
  KvStore second = *KvStore::create({.layers = 3, .sequences = 1, .kv_heads = 2, .head_dim = 8, .positions = 5});
  KvStore other = *KvStore::create({.layers = 2, .sequences = 1, .kv_heads = 4, .head_dim = 8, .positions = 9});
  const auto good = [&] {
    StepInputs in;
    in.streams = {{.kv = &first}, {.kv = &second}};
    const std::vector<int32_t> tokens = {1, 2, 3}, positions = {0, 4, 8};
    append_span(in, {.stream = 0, .sequence = 1}, tokens, positions, KeyRule::full(), 9);
    append_span(in, {.stream = 1, .trial = true}, std::vector<int32_t>{7}, std::vector<int32_t>{4}, KeyRule::causal(),
                5);
    in.wanted = {0, 2, 3};
    in.predictions = {{0, 1, 0.5}, {2}};
    return in;
  };
  ASSERT_TRUE(check_step(good(), kNeeded));
  const auto message = [&](const std::function<void(StepInputs&)>& damage) {
    StepInputs in = good();
    damage(in);
    const auto status = check_step(in, kNeeded);
    return status ? std::string("accepted") : status.error().message;
  };
  using In = StepInputs;
  const std::pair<std::function<void(In&)>, const char*> cases[] = {
      {[](In& in) { in.ranges[1].first = -1; }, "step: row 1 reads positions [-1, 9) of 9"},
      {[](In& in) { in.ranges[1].last = 10; }, "step: row 1 reads positions [0, 10) of 9"},
      {[](In& in) { in.ranges[1] = {4, 4}; }, "step: row 1 reads positions [4, 4) of 9"},
      {[](In& in) { in.ranges[3] = {4, 3}; }, "step: row 3 reads positions [4, 3) of 5"},
      {[](In& in) { in.ranges[3] = {0, 9}; }, "step: row 3 reads positions [0, 9) of 5"},
      {[](In& in) { in.ranges.pop_back(); }, "step: 4 tokens, 4 positions, 4 places, 3 ranges of keys"},
      {[](In& in) { in.places = {0, 1, 2}; }, "step: 4 tokens, 4 positions, 3 places, 4 ranges of keys"},
      {[](In& in) { in.positions[3] = 5; }, "step: row 3 is at position 5 of 5"},
      {[](In& in) { in.positions[0] = -1; }, "step: row 0 is at position -1 of 9"},
      {[](In& in) { in.spans[1].stream = 2; }, "step: stream 2 of 2 does not exist"},
      {[](In& in) { in.spans[1].stream = -1; }, "step: stream -1 of 2 does not exist"},
      {[](In& in) { in.spans[1].sequence = 1; }, "step: sequence 1 does not exist in its store"},
      {[](In& in) { in.spans[0].sequence = -1; }, "step: sequence -1 does not exist in its store"},
      {[](In& in) { in.spans[1].begin = 2; }, "step: a span of rows [2, 2 + 1) follows row 3 of 4"},
      {[](In& in) { in.spans[1].count = 2; }, "step: a span of rows [3, 3 + 2) follows row 3 of 4"},
      {[](In& in) { in.spans[0].count = -1; }, "step: a span of rows [0, 0 + -1) follows row 0 of 4"},
      {[](In& in) { in.spans.pop_back(); }, "step: spans cover 3 of 4 rows"},
      {[](In& in) { in.wanted[1] = 0; }, "step: wanted row 1 is 0 of 4"},
      {[](In& in) { in.wanted[2] = 4; }, "step: wanted row 2 is 4 of 4"},
      {[](In& in) { in.predictions[1].conditional = 3; }, "step: prediction 1 is of the wanted rows 3 and -1, scale 0"},
      {[](In& in) { in.predictions[1].conditional = -1; },
       "step: prediction 1 is of the wanted rows -1 and -1, scale 0"},
      {[](In& in) { in.predictions[0].unconditional = 2; },  // of another stream
       "step: prediction 0 is of the wanted rows 0 and 2, scale 0.5"},
      {[](In& in) { in.predictions[0].unconditional = -2; },
       "step: prediction 0 is of the wanted rows 0 and -2, scale 0.5"},
      {[](In& in) { in.predictions[0].scale = std::numeric_limits<double>::infinity(); },
       "step: prediction 0 is of the wanted rows 0 and 1, scale inf"},
      {[](In& in) { in.streams[1].kv = in.streams[0].kv; }, "step: two streams have one K/V store"},
      {[](In& in) { in.streams[1].kv = nullptr; }, "step: a stream has no K/V store"},
      {[&](In& in) { in.streams[0].kv = &other; },
       "K/V store: found 2 layers of 4 heads of 8 elements, needed 2 of 2 of 8"},
  };
  for (const auto& [damage, expected] : cases) EXPECT_EQ(message(damage), expected);
}

TEST(CheckStep, SoftTokensAreAscendingListsOfTheStreamsRows) {
  KvStore kv = *KvStore::create({.layers = 2, .sequences = 1, .kv_heads = 2, .head_dim = 8, .positions = 9});
  const auto accepted = [&](const SoftTokens& soft) {
    StepInputs in;
    in.streams = {{.kv = &kv, .soft = &soft}};
    append_span(in, {}, std::vector<int32_t>{1, 2}, std::vector<int32_t>{3, 4}, KeyRule::full(), 9);
    const auto status = check_step(in, kNeeded);
    EXPECT_EQ(status ? "" : status.error().message,
              status ? "" : "step: soft tokens of stream 0 are not ascending lists of its 2 rows");
    return status.has_value();
  };
  EXPECT_TRUE(accepted({{0, 2, 3}, {4, 7, 1}, {0.5f, 0.25f, 1}}));
  EXPECT_TRUE(accepted({{0, 0, 0}, {}, {}}));
  EXPECT_FALSE(accepted({{0, 3}, {1, 4, 7}, {1, 1, 1}})) << "of one row";
  EXPECT_FALSE(accepted({{0, 2, 1}, {4}, {1}}));
  EXPECT_FALSE(accepted({{0, 1, 4}, {4, 5, 6}, {1, 1, 1}})) << "more than there are";
  EXPECT_FALSE(accepted({{0, 2, 3}, {7, 4, 1}, {1, 1, 1}})) << "descending";
  EXPECT_FALSE(accepted({{0, 2, 3}, {4, 4, 1}, {1, 1, 1}})) << "twice";
  EXPECT_FALSE(accepted({{0, 2, 3}, {-1, 4, 1}, {1, 1, 1}}));
  EXPECT_FALSE(accepted({{0, 2, 3}, {4, 7, 1}, {1, 1}}));
}

}  // namespace
}  // namespace llada
