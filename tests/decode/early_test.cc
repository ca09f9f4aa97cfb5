// Tokens behind the block that agree over time are kept early, and editing that
// masks instead of writing over. At their neutral settings both are the rules
// without them.
#include <gmock/gmock.h>

#include "decode/fields.h"
#include "decode/script.h"

namespace llada::decode::early {
namespace {

using testing::ElementsAre;
using Trace = std::vector<std::vector<std::pair<int32_t, int32_t>>>;

// Two blocks of two. The block's own masks are doubtful; behind it, what
// `behind` says of the forward and the position.
Trace run_two_blocks(int64_t steps, std::function<Prediction(int64_t, int32_t)> behind) {
  DecodeOptions o = {
      .gen_length = 4, .block_length = 2, .acceptance = Acceptance::threshold, .early_stop = EarlyStop::none};
  o.ahead_steps = steps;
  o.ahead_threshold = 0.8;
  const auto script = [&](const StepPlan& plan, int64_t forward, int32_t p) {
    if (p >= plan.block_end) return behind(forward, p);
    return Prediction{.position = p, .token = 3, .probability = p % 2 == 0 ? 0.5 : 0.4};
  };
  return run_script(o, kPrompt, script).trace;
}

TEST(AheadOfTheBlock, KeepsWhatAgreesOverTime) {
  const auto sure = [](int64_t, int32_t p) { return Prediction{.position = p, .token = p, .probability = 0.9}; };
  EXPECT_EQ(run_two_blocks(2, sure), (Trace{{{2, 3}}, {{3, 3}, {4, 4}, {5, 5}}}));
  EXPECT_EQ(run_two_blocks(1, sure), (Trace{{{2, 3}, {4, 4}, {5, 5}}, {{3, 3}}}));
  EXPECT_EQ(run_two_blocks(3, sure).size(), 4u) << "the block was done before";
  // Another token, or once too little.
  const auto changes = [](int64_t f, int32_t p) {
    return Prediction{.position = p, .token = p == 4 ? static_cast<int32_t>(f) : 5, .probability = 0.9};
  };
  EXPECT_EQ(run_two_blocks(2, changes)[1], (Trace::value_type{{3, 3}, {5, 5}}));
  const auto doubts = [](int64_t f, int32_t p) {
    return Prediction{.position = p, .token = 6, .probability = p == 5 && f == 0 ? 0.8 : 0.9};
  };
  EXPECT_EQ(run_two_blocks(2, doubts)[1], (Trace::value_type{{3, 3}, {4, 6}}));
  // An end token would cut off what is not decided yet.
  const auto ends = [](int64_t, int32_t p) { return Prediction{.position = p, .token = kEos, .probability = 1}; };
  EXPECT_EQ(run_two_blocks(2, ends).size(), 4u);
}

// The block's second mask stays open with 0.3 nats, a doubtful token behind it with 0.3 more.
TEST(AheadOfTheBlock, WaitsBehindTheEntropyGate) {
  const auto first_step = [](double gate) {
    DecodeOptions o = {
        .gen_length = 6, .block_length = 2, .acceptance = Acceptance::threshold, .early_stop = EarlyStop::none};
    o.ahead_steps = 1, o.ahead_threshold = 0.8, o.entropy_gate = gate;
    const auto script = [](const StepPlan& plan, int64_t, int32_t p) {
      const bool doubtful = p < plan.block_end ? p % 2 == 1 : p == 5;
      return Prediction{.position = p, .token = 3, .probability = doubtful ? 0.5 : 0.95, .entropy = doubtful ? 0.3 : 0};
    };
    return run_script(o, kPrompt, script).trace[0];
  };
  EXPECT_EQ(first_step(0), (Trace::value_type{{2, 3}, {4, 3}, {6, 3}, {7, 3}})) << "no gate";
  EXPECT_EQ(first_step(0.7), first_step(0));
  EXPECT_EQ(first_step(0.5), (Trace::value_type{{2, 3}, {4, 3}}));
  EXPECT_EQ(first_step(0.1), (Trace::value_type{{2, 3}}));
}

TEST(AheadOfTheBlock, ComputesNoRowMore) {
  for (const KvChoice kv : all_values<KvChoice>()) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      DecodeOptions o = {.gen_length = 40, .block_length = 8, .acceptance = Acceptance::threshold};
      o.threshold = 0.8, o.kv = kv;
      const Outcome without = run_script(o, kPrompt, random_script(seed));
      o.ahead_steps = 1 << 20;
      Outcome never = run_script(o, kPrompt, random_script(seed));
      EXPECT_EQ(never.trace, without.trace);
      EXPECT_EQ(never.stats.rows, without.stats.rows);
    }
  }
}

TEST(AheadOfTheBlock, SavesForwards) {
  DecodeOptions o = {.gen_length = 64, .block_length = 8, .acceptance = Acceptance::threshold};
  o.early_stop = EarlyStop::none;
  const auto script = [](const StepPlan&, int64_t, int32_t p) {
    return Prediction{.position = p, .token = 3, .probability = p % 4 == 0 ? 0.85 : 0.95};
  };
  const int64_t plain = run_script(o, kPrompt, script).stats.nfe;
  o.ahead_steps = 2, o.ahead_threshold = 0.8;
  EXPECT_LT(run_script(o, kPrompt, script).stats.nfe, plain);
}

// The block [2, 5): 2 is written as 3, and then its row prefers 4. Writing over
// makes it 4; masking asks again, with what the row says of a mask.
Trace run_edits(bool masks) {
  DecodeOptions o = {
      .gen_length = 3, .block_length = 3, .acceptance = Acceptance::threshold, .early_stop = EarlyStop::none};
  o.threshold = 0.9, o.revision = Revision::edit, o.edit_threshold = 0.5, o.edit_mask = masks;
  const auto script = [](const StepPlan& plan, int64_t forward, int32_t p) {
    const auto at = std::ranges::lower_bound(plan.rows, p) - plan.rows.begin();
    const bool masked = plan.inputs[static_cast<size_t>(at)] == test_ids().mask;
    if (p == 2) return Prediction{.position = p, .token = masked ? (forward == 0 ? 3 : 5) : 4, .probability = 0.95};
    return Prediction{.position = p, .token = 6, .probability = forward < 2 && p == 4 ? 0.2 : 0.95};
  };
  return run_script(o, kPrompt, script).trace;
}

TEST(EditMask, AsksAgainOnceInsteadOfWritingOver) {
  EXPECT_EQ(run_edits(false)[1], (Trace::value_type{{2, 4}, {4, 6}}));
  const Trace masked = run_edits(true);
  EXPECT_EQ(masked[1], (Trace::value_type{{2, test_ids().mask}, {4, 6}}));
  EXPECT_EQ(masked[2], (Trace::value_type{{2, 5}}));
  EXPECT_EQ(masked[3], (Trace::value_type{{2, 4}})) << "the second time it is written over";
}

TEST(Early, RefusalsNameTheOption) {
  const auto refusal = [](auto change) {
    DecodeOptions o;
    o.acceptance = Acceptance::threshold;
    o.ahead_steps = 2;
    change(o);
    const Status status = validate(o);
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(refusal([](DecodeOptions&) {}), "");
  EXPECT_THAT(refusal([](auto& o) { o.acceptance = Acceptance::schedule; }), testing::StartsWith("ahead_steps: keeps"));
  EXPECT_THAT(refusal([](auto& o) { o.mbsd = true; }), testing::HasSubstr("that mbsd counts on"));
  EXPECT_THAT(refusal([](auto& o) { o.revision = Revision::edit; }), testing::HasSubstr("revision edit"));
  EXPECT_THAT(refusal([](auto& o) { o.ahead_steps = 0, o.edit_mask = true, o.acceptance = Acceptance::llada2; }),
              testing::StartsWith("edit_mask: masks tokens again"));
}

}  // namespace
}  // namespace llada::decode::early
