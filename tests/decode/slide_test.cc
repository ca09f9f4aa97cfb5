// A block that begins at the first mask and moves with it. Over one block that
// covers everything it is that block, bit for bit.
#include <gmock/gmock.h>

#include "decode/fields.h"
#include "decode/script.h"

namespace llada::decode::slide {
namespace {

using testing::HasSubstr;
using Trace = std::vector<std::vector<std::pair<int32_t, int32_t>>>;

// Plain: the best prediction of the `length` positions from the first mask on, and all from the threshold on.
Trace reference(std::vector<int32_t> canvas, int64_t gen, int64_t length, double threshold, Script script) {
  canvas.resize(canvas.size() + static_cast<size_t>(gen), decode::kMask);
  Trace trace;
  for (;;) {
    const auto open = std::ranges::find(canvas, decode::kMask);
    if (open == canvas.end()) return trace;
    StepPlan seen;
    for (size_t p = 0; p < canvas.size(); ++p) seen.rows.push_back(static_cast<int32_t>(p));
    seen.inputs = canvas;
    std::vector<Prediction> got;
    for (auto at = open; at != canvas.end() && at < open + length; ++at)
      if (*at == decode::kMask)
        got.push_back(script(seen, std::ssize(trace), static_cast<int32_t>(at - canvas.begin())));
    const auto best = std::ranges::max_element(got, {}, &Prediction::probability);
    Trace::value_type chosen;
    for (const Prediction& p : got)
      if (p.probability >= threshold || p.position == best->position) chosen.emplace_back(p.position, p.token);
    for (const auto& [position, token] : chosen) canvas[static_cast<size_t>(position)] = token;
    trace.push_back(chosen);
  }
}

TEST(Slide, EqualsThePlainLoop) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto gen = static_cast<int64_t>(1 + seed % 37), length = static_cast<int64_t>(1 + seed % 11);
    DecodeOptions o = {LengthOptions{.gen_length = gen, .block_length = length, .slide = true},
                       AcceptanceOptions{.acceptance = Acceptance::threshold}};
    o.threshold = static_cast<double>(1 + seed % 20) / 20;
    o.early_stop = EarlyStop::none;
    ASSERT_EQ(run_script(o, kPrompt, random_script(seed)).trace,
              reference(kPrompt, gen, length, o.threshold, random_script(seed)))
        << "seed " << seed;
  }
}

TEST(Slide, OverOneBlockIsThatBlock) {
  // The other policies ask where the block begins, which a fixed one keeps saying when its first masks are decided.
  for (const KvChoice kv : {KvChoice::none}) {
    for (const Acceptance rule : all_values<Acceptance>()) {
      if (rule == Acceptance::causal) continue;  // of other models
      for (uint64_t seed = 0; seed < 4; ++seed) {
        DecodeOptions o = {LengthOptions{.gen_length = 24, .block_length = 24}, AcceptanceOptions{.acceptance = rule}};
        o.kv = kv, o.threshold = 0.8, o.refresh_after = kv != KvChoice::none && seed % 2 ? 3 : 0;
        if (seed >= 2) o.revision = Revision::dual_path;
        const Outcome fixed = run_script(o, kPrompt, random_script(seed));
        o.slide = true;
        if (rule == Acceptance::llada2 || is_dream(rule)) continue;  // refused
        const Outcome moved = run_script(o, kPrompt, random_script(seed));
        EXPECT_EQ(moved.trace, fixed.trace) << name(kv) << ' ' << name(rule);
        EXPECT_EQ(moved.stats.rows, fixed.stats.rows) << name(kv) << ' ' << name(rule);
      }
    }
  }
}

// Every fourth position is doubtful until all before it is decided: a chain. A fixed block waits for its last link,
// a sliding one goes on behind it.
TEST(Slide, SavesForwardsOnAChain) {
  DecodeOptions o = {LengthOptions{.gen_length = 64, .block_length = 6},
                     AcceptanceOptions{.acceptance = Acceptance::threshold}};
  o.early_stop = EarlyStop::none;
  const auto chain = [](const StepPlan& plan, int64_t, int32_t p) {
    const auto open = std::ranges::find(plan.inputs, decode::kMask) - plan.inputs.begin();
    return Prediction{.position = p, .token = 3, .probability = p < open + 4 ? 0.95 : 0.5};
  };
  const int64_t fixed = run_script(o, kPrompt, chain).stats.nfe;
  o.slide = true;
  EXPECT_EQ(run_script(o, kPrompt, chain).stats.nfe, 16);
  EXPECT_EQ(fixed, 21);
}

// Two positions at a time from 2 on, everything certain: what a step reads and computes moves by two.
TEST(Slide, RowsMoveWithTheBlock) {
  DecodeOptions o = {LengthOptions{.gen_length = 6, .block_length = 2, .slide = true},
                     AcceptanceOptions{.acceptance = Acceptance::threshold}};
  o.early_stop = EarlyStop::none, o.tail = 1;
  const auto sure = [](const StepPlan&, int64_t, int32_t p) {
    return Prediction{.position = p, .token = 3, .probability = 1};
  };
  const auto rows = [&](KvChoice kv) {
    o.kv = kv;
    std::vector<std::vector<int32_t>> all;
    for (const StepPlan& plan : run_script(o, kPrompt, sure).plans) all.push_back(plan.rows);
    return all;
  };
  using Rows = std::vector<std::vector<int32_t>>;
  EXPECT_EQ(rows(KvChoice::none), (Rows{{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4, 5, 6}, {0, 1, 2, 3, 4, 5, 6, 7}}));
  // Decided tokens once more with what they became, and the block. The tail stays where the full forward saw it.
  EXPECT_EQ(rows(KvChoice::dual), (Rows{{0, 1, 2, 3, 4}, {2, 3, 4, 5}, {4, 5, 6, 7}}));
  // Position 1 stands before what was a mask when it was computed, and so does 3 when 4 is one.
  EXPECT_EQ(rows(KvChoice::frozen), (Rows{{0, 1, 2, 3, 4}, {1, 2, 3, 4, 5}, {3, 4, 5, 6, 7}}));
}

// Tokens behind what the last full forward read count too: it read three of the answer, and six are to change.
TEST(Slide, EveryChangedTokenBringsTheNextFullForwardNearer) {
  DecodeOptions o = {LengthOptions{.gen_length = 12, .block_length = 2, .slide = true},
                     AcceptanceOptions{.acceptance = Acceptance::threshold},
                     EndingOptions{.early_stop = EarlyStop::none},
                     CacheOptions{.kv = KvChoice::dual, .tail = 1, .refresh_after = 6}};
  const Outcome outcome = run_script(o, kPrompt, [](const StepPlan&, int64_t, int32_t p) {
    return Prediction{.position = p, .token = 3, .probability = 1};
  });
  std::vector<size_t> full;
  for (size_t step = 0; step < outcome.plans.size(); ++step)
    if (outcome.plans[step].rows.front() == 0) full.push_back(step);
  EXPECT_EQ(full, (std::vector<size_t>{0, 3}));
  EXPECT_EQ(outcome.plans.size(), 6U);
}

TEST(Slide, IsRefusedWhereBlocksMatter) {
  DecodeOptions o = {LengthOptions{.slide = true}, AcceptanceOptions{.acceptance = Acceptance::threshold}};
  EXPECT_TRUE(validate(o));
  o.revision = Revision::edit;
  EXPECT_THAT(
      validate(o).error().message,
      HasSubstr("slide: found revision edit, which changes the tokens of a block that stays in its place; needed "
                "revision none or dual-path, or slide false"));
  o.revision = Revision::none, o.acceptance = Acceptance::llada2;
  EXPECT_THAT(validate(o).error().message,
              HasSubstr("slide: found accept llada2, which plans the steps of a block that stays in its place; needed "
                        "accept schedule, random, threshold, factor, entropy, rnd1 or wedlm, or slide false"));
  o.acceptance = Acceptance::schedule, o.steps = 64;
  EXPECT_THAT(validate(o).error().message, HasSubstr("steps: found 64 with slide true"));
  o.steps = 0, o.acceptance = Acceptance::threshold;
  EXPECT_THAT(validate(o, false, 32).error().message, HasSubstr("slide: found true with a block-causal model"));
}

}  // namespace
}  // namespace llada::decode::slide
