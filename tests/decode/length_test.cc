// --gen-length auto: the canvas follows the answer. No answer is cut below the cap, no block of padding is computed,
// and the cap says nothing once the end is inside.
#include "decode/length.h"

#include <gmock/gmock.h>

#include "decode/answer.h"
#include "decode/fields.h"
#include "decode/script.h"

namespace llada::decode::length_rules {
namespace {

// Text up to `length`, then end tokens; `sure` of where the answer ends before it comes near.
Script answer_of(int64_t length, double sure) {
  return [=](const StepPlan&, int64_t, int32_t position) {
    const int64_t at = position - std::ssize(kPrompt);
    Prediction p{.position = position, .token = at < length ? 3 : kEos, .probability = 0.6};
    p.runner_up = p.token == 3 ? kEos : 3;
    if (at > length) p.probability = sure;
    if (at == length) p.probability = 0.95;
    p.margin = 2 * p.probability - 1;
    p.entropy = 1;
    return p;
  };
}

DecodeOptions options_of(int64_t most) {
  DecodeOptions o = {LengthOptions{.gen_length = most, .auto_length = true, .block_length = 8},
                     AcceptanceOptions{.acceptance = Acceptance::threshold}};
  o.threshold = 0.9;
  return o;
}

int64_t content(const Outcome& outcome) { return content_tokens(outcome.canvas, test_ids()); }

TEST(Length, NoAnswerIsCutAndNoBlockOfPaddingIsComputed) {
  for (const double sure : {0.95, 0.7, 0.3}) {
    for (const KvChoice kv : all_values<KvChoice>()) {
      for (const int64_t length : {0, 1, 7, 8, 9, 30, 63, 64, 100}) {
        DecodeOptions o = options_of(200);
        o.kv = kv;
        const Outcome ran = run_script(o, kPrompt, answer_of(length, sure));
        ASSERT_EQ(content(ran), length) << sure << " " << name(kv);
        const int64_t block_end = std::ssize(kPrompt) + (length / 8 + 1) * 8;
        for (const StepPlan& plan : ran.plans) {
          // One block behind the one that is decided, and at the start two; more only while no end is in sight.
          const int64_t most = sure > 0.5 ? std::max<int64_t>(block_end + 8, 2 + 16) : 202;
          EXPECT_LE(plan.keys, most) << length << " " << name(kv);
        }
      }
    }
  }
}

TEST(Length, TheCapChangesNothingOnceTheEndIsInside) {
  for (const double sure : {0.95, 0.6}) {
    for (const KvChoice kv : all_values<KvChoice>()) {
      DecodeOptions o = options_of(60);
      o.kv = kv;
      const Outcome less = run_script(o, kPrompt, answer_of(21, sure));
      o.gen_length = 500;
      const Outcome more = run_script(o, kPrompt, answer_of(21, sure));
      EXPECT_EQ(less.trace, more.trace);
      EXPECT_TRUE(less.plans == more.plans) << name(kv);
    }
  }
}

// An answer without an end goes on to the cap and ends there.
TEST(Length, GrowsToTheCapAndNoFurther) {
  const Outcome ran = run_script(options_of(43), kPrompt, answer_of(1000, 0.9));
  EXPECT_EQ(content(ran), 43);
  EXPECT_EQ(ran.plans.front().keys, 2 + 16);
  EXPECT_EQ(ran.plans.back().keys, 2 + 43);
}

// The mean over the block at the horizon decides; a runner-up that would end the answer counts with what it has.
TEST(Length, TheHorizonFollowsTheEndTokens) {
  const Block block{.begin = 2, .end = 10, .masks = 8};
  const auto horizon_after = [&](Prediction p) {
    Length length(options_of(100), test_ids(), 2, 102);
    length.enter(block);
    EXPECT_EQ(length.horizon(), 18);
    EXPECT_THAT(length.last_positions(block), testing::ElementsAre(10, 11, 12, 13, 14, 15, 16, 17));
    length.answered(block, std::vector<Prediction>(8, p));
    return length.horizon();
  };
  EXPECT_EQ(horizon_after({.token = 3, .probability = 0.9, .margin = 0.85, .runner_up = 4}), 26);
  EXPECT_EQ(horizon_after({.token = 3, .probability = 0.49, .margin = 0.01, .runner_up = kEos}), 26) << "0.48";
  EXPECT_EQ(horizon_after({.token = kEot, .probability = 0.6, .margin = 0.3, .runner_up = 3}), 18);
  EXPECT_EQ(horizon_after({.token = kEos, .probability = 0.95, .margin = 0.9, .runner_up = 3}), 10);
}

// Where a tail bounds what is seen there is nothing to decide.
TEST(Length, WithATailItIsTheCap) {
  for (const int64_t length : {1, 7, 8, 21, 40, 71})
    for (const KvChoice kv : {KvChoice::none, KvChoice::frozen}) {
      DecodeOptions o = options_of(72);
      o.tail = 4, o.kv = kv;
      DecodeOptions fixed = o;
      fixed.auto_length = false;
      const Outcome a = run_script(o, kPrompt, answer_of(length, 0.9)),
                    b = run_script(fixed, kPrompt, answer_of(length, 0.9));
      EXPECT_TRUE(a.plans == b.plans) << length << " " << name(kv);
    }
}

TEST(Length, TextsAndRefusals) {
  DecodeOptions o;
  ASSERT_TRUE(set_field(o, "gen_length", "auto"));
  EXPECT_TRUE(o.auto_length);
  EXPECT_EQ(o.gen_length, kAutoLength);
  EXPECT_EQ(*get_field(o, "gen_length"), "auto");
  ASSERT_TRUE(set_field(o, "gen_length", "auto:77"));
  EXPECT_EQ(*get_field(o, "gen_length"), "auto:77");
  ASSERT_TRUE(set_field(o, "gen_length", "77"));
  EXPECT_FALSE(o.auto_length);
  for (const char* text : {"auto:", "auto:0", "auto:-1", "auto7", "-1", "Auto"})
    EXPECT_FALSE(set_field(o, "gen_length", text)) << text;
  DecodeOptions none = options_of(64), steps = options_of(64);
  none.early_stop = EarlyStop::none;
  steps.acceptance = Acceptance::schedule, steps.steps = 64;
  EXPECT_THAT(validate(none).error().message, testing::StartsWith("early_stop: found none with gen_length auto"));
  EXPECT_THAT(validate(steps).error().message, testing::StartsWith("steps: found 64 with gen_length auto"));
}

}  // namespace
}  // namespace llada::decode::length_rules
