// Windows that read what is decided first, over a script: which rows a forward computes, and where their keys lie.
#include "decode/decided_first.h"

#include <gmock/gmock.h>

#include "decode/options.h"
#include "decode/script.h"

namespace llada::decode {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SpecialIds window_ids(int64_t window) {
  SpecialIds ids = test_ids();
  ids.attention_block = window;
  ids.decided_first = true;
  return ids;
}

DecodeOptions by_threshold(int64_t gen, int64_t window, KvChoice kv) {
  return {LengthOptions{.gen_length = gen, .block_length = window},
          AcceptanceOptions{.acceptance = Acceptance::threshold, .threshold = 0.9}, CacheOptions{.kv = kv}};
}

TEST(DecidedFirst, PlacesAreThoseOfTheDecidedAndThenOfTheOthers) {
  EXPECT_THAT(decided_first_places({true, true, false, true, false, false, true}), ElementsAre(0, 1, 4, 2, 5, 6, 3));
  EXPECT_THAT(decided_first_places({true, false, true, false}, 1), ElementsAre(2, 1, 3));
  EXPECT_THAT(decided_first_places({}), ElementsAre());
}

// A prompt of 2, windows of 3. The first forward is sure of position 4 alone, the others of whatever comes first.
Prediction sure(const StepPlan& plan, int64_t forward, int32_t position) {
  const bool is = forward == 0 ? position == 4 : position == plan.block_begin || (forward == 1 && position == 3);
  return {.position = position, .token = position % 7, .probability = is ? 0.95 : 0.2, .entropy = is ? 0.1 : 2};
}

std::vector<StepPlan> plans_of(KvChoice kv, std::vector<int32_t>* tokens = nullptr) {
  const SpecialIds ids = window_ids(3);
  const DecodeOptions options = by_threshold(4, 3, kv);
  Canvas canvas = lay_generation(kPrompt, 4, ids);
  EXPECT_EQ(canvas.size(), 8) << "a window at the last position";
  EXPECT_EQ(canvas.padding, 2);
  auto strategy = make_strategy(options, ids, canvas);
  EXPECT_TRUE(strategy) << strategy.error().message;
  ScriptRunner runner(sure);
  const auto stats = denoise(canvas, **strategy, runner, {});
  EXPECT_TRUE(stats) << stats.error().message;
  if (tokens != nullptr) *tokens = canvas.tokens;
  return runner.plans;
}

TEST(DecidedFirst, WorkedExample) {
  std::vector<int32_t> tokens;
  const std::vector<StepPlan> plans = plans_of(KvChoice::block, &tokens);
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_THAT(plans[0].rows, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(plans[0].places, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(plans[0].logits, ElementsAre(2, 3, 4));
  EXPECT_THAT(plans[1].rows, ElementsAre(2, 3, 4)) << "the prompt has been read for good";
  EXPECT_THAT(plans[1].places, ElementsAre(3, 4, 2)) << "4 is decided";
  EXPECT_THAT(plans[1].logits, ElementsAre(2, 3));
  EXPECT_EQ(plans[1].keys, 5);
  EXPECT_THAT(plans[2].rows, ElementsAre(2, 3, 4, 5, 6, 7)) << "what was decided is written, and a whole window behind";
  EXPECT_THAT(plans[2].places, ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_THAT(plans[2].logits, ElementsAre(5, 6, 7));
  EXPECT_THAT(tokens, ElementsAre(1, 1, 2, 3, 4, 5, kMask, kMask)) << "nothing behind the answer is waited for";
}

TEST(DecidedFirst, WindowsEndWithTheContext) {
  const SpecialIds ids = window_ids(3);
  for (const auto& [context, size] : {std::pair{0, 8}, {9, 8}, {8, 8}, {7, 7}, {6, 6}}) {
    EXPECT_EQ(generation_size(2, 4, ids, context), size);
    const Canvas canvas = lay_generation(kPrompt, 4, ids, context);
    EXPECT_EQ(canvas.size(), size);
    EXPECT_EQ(canvas.padding, size - 6);
  }
  EXPECT_EQ(generation_size(2, 4, ids, 5), 6) << "more than there is, which is refused elsewhere";
}

TEST(DecidedFirst, WhatIsKeptIsNotComputedAgain) {
  std::vector<int32_t> kept, all;
  const auto few = plans_of(KvChoice::block, &kept), many = plans_of(KvChoice::none, &all);
  EXPECT_EQ(kept, all);
  ASSERT_EQ(few.size(), many.size());
  for (size_t i = 0; i < few.size(); ++i) {
    EXPECT_EQ(many[i].rows.front(), 0);
    EXPECT_EQ(many[i].keys, few[i].keys);
    EXPECT_TRUE(std::equal(few[i].places.rbegin(), few[i].places.rend(), many[i].places.rbegin()));
  }
}

TEST(DecidedFirst, KeptKeysOfThePromptAreNotComputed) {
  const SpecialIds ids = window_ids(3);
  EXPECT_EQ(ids.prefix_unit(), 32) << "what is read causally can be cut anywhere";
  const Canvas canvas = lay_generation(kPrompt, 4, ids);
  auto strategy = make_strategy(by_threshold(4, 3, KvChoice::block), ids, canvas);
  (*strategy)->stored(canvas, 2);
  EXPECT_THAT((*strategy)->plan(canvas).rows, ElementsAre(2, 3, 4));
}

TEST(DecidedFirst, RefusesWhatItsWindowCannotDo) {
  const auto refused = [](auto change) {
    DecodeOptions o = by_threshold(8, 16, KvChoice::block);
    change(o);
    const Status status = validate(o, false, window_ids(16).kind());
    return status ? std::string("accepted") : status.error().message;
  };
  EXPECT_EQ(refused([](DecodeOptions& o) { o.block_length = 4; }), "accepted");
  EXPECT_EQ(refused([](DecodeOptions& o) { o.acceptance = Acceptance::schedule; }), "accepted");
  EXPECT_THAT(refused([](DecodeOptions& o) { o.block_length = 32; }), HasSubstr("needed 16, or a divisor of it"));
  EXPECT_THAT(refused([](DecodeOptions& o) { o.acceptance = Acceptance::causal; }), HasSubstr("accept: found causal"));
  EXPECT_THAT(refused([](DecodeOptions& o) { o.acceptance = Acceptance::llada2; }),
              HasSubstr("with a window that begins at the first mask"));
  EXPECT_THAT(refused([](DecodeOptions& o) { o.acceptance = Acceptance::schedule, o.steps = 8; }),
              HasSubstr("steps: found 8 with a window that begins at the first mask"));
  EXPECT_THAT(refused([](DecodeOptions& o) { o.revision = Revision::dual_path; }),
              HasSubstr("revision: found dual-path"));
  EXPECT_THAT(refused([](DecodeOptions& o) { o.cfg_scale = 1; }), HasSubstr("cfg_scale: found 1"));
  EXPECT_THAT(refused([](DecodeOptions& o) { o.kv = KvChoice::frozen; }), HasSubstr("kv: found frozen"));
}

}  // namespace
}  // namespace llada::decode
