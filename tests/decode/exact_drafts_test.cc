// Exact drafts change forwards and rows, and nothing else. The model in numbers (block_causal.h) has a store, so a
// draft's result that is used where a step would have stored something shows in all later predictions.
#include "decode/exact_drafts.h"

#include <gmock/gmock.h>

#include "decode/block_causal.h"
#include "decode/fields.h"
#include "decode/pairs.h"

namespace llada::decode::exact_drafts {
namespace {

constexpr int64_t kFull = int64_t{1} << 20;  // one block: every position sees all

struct Ran {
  Canvas canvas;
  RunStats stats;
  std::vector<StepPlan> plans;
  std::vector<std::vector<Prediction>> predictions;
  std::vector<std::vector<Edit>> edits;
  std::vector<bool> known;
  double ms = 0;  // by the options' table
};

Ran run(const DecodeOptions& options, int64_t attention_block, uint64_t seed, uint64_t steady = 85) {
  Ran ran;
  SpecialIds ids = test_ids();
  ids.attention_block = attention_block;
  ran.canvas = lay_generation(std::vector<int32_t>{1, 2, 3, 4, 5}, options.gen_length, ids);
  auto strategy = make_strategy(options, ids, ran.canvas);
  if (!strategy) {
    ADD_FAILURE() << strategy.error().message;
    return ran;
  }
  BlockCausalModel model(seed, attention_block > 0 ? attention_block : kFull, 1, steady);
  const auto record = [&](const StepEvent& event) {
    ran.predictions.emplace_back(event.predictions.begin(), event.predictions.end());
    ran.edits.emplace_back(event.edits.begin(), event.edits.end());
    ran.known.push_back(event.known);
    return true;
  };
  const auto stats = denoise(ran.canvas, **strategy, model, record, draft_limits(options));
  if (!stats) {
    ADD_FAILURE() << stats.error().message;
    return ran;
  }
  ran.stats = *stats;
  ran.plans = std::move(model.plans);
  for (const StepPlan& plan : ran.plans) ran.ms += step_ms(options.latency_table, rows_of(plan));
  return ran;
}

bool same(const Ran& a, const Ran& b) {
  const auto equal = [](const auto& x, const auto& y, auto members) {
    return std::ranges::equal(x, y, [&](const auto& p, const auto& q) { return members(p) == members(q); });
  };
  const auto of_edit = [](const Edit& e) { return std::tuple(e.position, e.token, e.state, e.confidence); };
  const auto of_prediction = [](const Prediction& p) {
    return std::tuple(p.position, p.token, p.probability, p.entropy, p.margin, p.runner_up);
  };
  bool alike = a.edits.size() == b.edits.size() && a.canvas.tokens == b.canvas.tokens &&
               a.canvas.states == b.canvas.states && a.stats.steps == b.stats.steps &&
               a.stats.counters == b.stats.counters;
  for (size_t i = 0; alike && i < a.edits.size(); ++i)
    alike = equal(a.edits[i], b.edits[i], of_edit) && equal(a.predictions[i], b.predictions[i], of_prediction);
  return alike;
}

std::string words_of(const DecodeOptions& o, uint64_t seed) { return fmt::format("seed {}: {}", seed, as_flags(o)); }

// Everything that may stand beside drafts.
std::vector<DecodeOptions> choices(int64_t attention_block) {
  std::vector<DecodeOptions> list;
  for (StrategyPair& pair : strategy_pairs(attention_block)) {
    DecodeOptions& o = pair.options;
    o.draft = 2;
    o.gen_length = 26;
    o.block_length = attention_block > 0 ? attention_block : 8;
    o.threshold = 0.8, o.factor = 0.7, o.entropy_bound = 0.3, o.remask_below = 0.5;
    SpecialIds ids;
    ids.attention_block = attention_block;
    if (pair.refusal.empty() && validate(o) && validate_for(o, ids)) list.push_back(o);
  }
  return list;
}

TEST(ExactDrafts, ChangeNoTokenNoConfidenceAndNoOrder) {
  int64_t saved = 0, runs = 0, slid = 0;
  for (const int64_t block : {int64_t{0}, int64_t{8}}) {
    for (const DecodeOptions& chosen : choices(block)) {
      for (uint64_t seed = 0; seed < 4; ++seed) {
        DecodeOptions o = chosen;
        o.early_stop = seed % 2 == 0 ? EarlyStop::none : EarlyStop::answer;
        if (block == 0 && o.kv != KvChoice::none)
          o.warmup = 1 + static_cast<int64_t>(seed / 2), o.refresh = seed == 3 ? 3 : 0;
        if (block == 0 && seed == 1 && !o.mbsd) o.tail = 4;
        o.tail_last = o.tail == 4 && (seed == 1 || seed == 2);
        o.cfg_scale = seed == 2 ? 1 : 0;
        o.edit_mask = seed == 1 && o.revision == Revision::edit && !has_schedule(o.acceptance);
        o.auto_length = seed == 3;
        if (block == 0 && o.revision == Revision::none && !o.mbsd && !has_schedule(o.acceptance))
          o.ahead_steps = seed == 2 ? 2 : 0;
        o.credit = seed == 3 && (o.acceptance == Acceptance::threshold || o.acceptance == Acceptance::schedule);
        if (block == 0 && (seed == 0 || seed == 3)) {
          DecodeOptions moved = o;
          moved.slide = true;
          moved.entropy_gate = !has_schedule(o.acceptance) ? 0.5 : 0;
          if (validate(moved)) o = moved, ++slid;
        }
        DecodeOptions off = o;
        off.draft = 0;
        const Ran with = run(o, block, seed), without = run(off, block, seed);
        ASSERT_TRUE(same(with, without)) << words_of(o, seed);
        EXPECT_EQ(with.stats.nfe + with.stats.saved_forwards, without.stats.nfe) << words_of(o, seed);
        EXPECT_EQ(std::ranges::count(with.known, true), with.stats.saved_forwards);
        EXPECT_EQ(without.stats.draft_rows, 0);
        saved += with.stats.saved_forwards, ++runs;
      }
    }
  }
  EXPECT_GT(runs, 700);
  EXPECT_GT(slid, 100);
  EXPECT_GT(saved, runs) << "the test looks at drafts that are used";
}

// A model that never changes its mind: with N states beside it, a forward settles N + 1 steps of the schedule.
TEST(ExactDrafts, AScheduleTakesOneForwardForManySteps) {
  DecodeOptions o = {.gen_length = 24, .block_length = 24, .early_stop = EarlyStop::none};
  for (const int64_t n : {0, 1, 3}) {
    o.draft = n;
    const Ran ran = run(o, 0, 7, 100);
    EXPECT_EQ(ran.stats.steps, 24);
    // Nothing is known before the first forward.
    EXPECT_EQ(ran.stats.nfe, 1 + (23 + n) / (n + 1)) << n;
    EXPECT_EQ(ran.stats.draft_rows, ran.stats.draft_states * 29) << "every state computes all rows";
  }
}

// Where the second most certain token turns out to be decided first, the state is there too. Of a step that needed no
// forward: which of the last forward's most certain tokens had been decided on the way there.
TEST(ExactDrafts, TheStateOfTheSecondTokenIsThereToo) {
  std::map<int64_t, int64_t> spared;  // by rank from 1
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Ran ran = run({.gen_length = 24, .block_length = 24, .early_stop = EarlyStop::none, .draft = 3}, 0, seed, 85);
    for (size_t i = 2; i < ran.known.size(); ++i) {
      if (!ran.known[i] || ran.known[i - 1]) continue;
      const auto& before = ran.predictions[i - 2];
      const auto probability = [&](int32_t position) {
        return std::ranges::find(before, position, &Prediction::position)->probability;
      };
      const int32_t decided = ran.edits[i - 1].at(0).position, earlier = ran.edits[i - 2].at(0).position;
      ++spared[1 + std::ranges::count_if(before, [&](const Prediction& p) {
                 return p.position != earlier && p.probability > probability(decided);
               })];
    }
  }
  EXPECT_GT(spared[1], 100);
  EXPECT_GT(spared[2], 5);
  EXPECT_EQ(spared.size(), 2u) << "two states of one token are computed";
}

// With kv dual the first forward of a block stores every row, which no later one of the block does: as a draft it could
// not be used, so none is computed.
TEST(ExactDrafts, NoStateIsComputedThatCouldNotBeUsed) {
  DecodeOptions o = {
      .gen_length = 24, .block_length = 8, .early_stop = EarlyStop::none, .kv = KvChoice::dual, .draft = 3};
  const Ran ran = run(o, 0, 7, 100);
  EXPECT_GT(ran.stats.saved_forwards, 0);
  for (const StepPlan& plan : ran.plans)
    for (const StepPlan& draft : plan.drafts) EXPECT_EQ(draft.rows.size(), 8u);
}

TEST(ExactDrafts, AreNeverSlowerByTheTable) {
  int64_t saved = 0, drafted = 0;
  double with_ms = 0, without_ms = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    DecodeOptions o = {.gen_length = 32, .block_length = 8, .early_stop = EarlyStop::none};
    o.acceptance = seed % 2 == 0 ? Acceptance::schedule : Acceptance::threshold;
    o.kv = seed % 3 == 0 ? KvChoice::none : KvChoice::dual;
    o.draft = -1;
    o.latency_slack = seed % 5 == 0 ? 0.05 : 0;
    double ms = 1;
    for (int64_t rows = 1; rows <= 256;
         rows *= 2, ms += static_cast<double>(mix64(seed * 64 + static_cast<uint64_t>(rows)) % 8) / 4)
      o.latency_table.push_back({rows, ms});
    DecodeOptions off = o;
    off.draft = 0;
    const uint64_t steady = seed % 4 < 2 ? 90 : 10;  // drafts that are right, and that are wrong
    const Ran with = run(o, 0, seed, steady), without = run(off, 0, seed, steady);
    ASSERT_TRUE(same(with, without));
    EXPECT_LE(with.ms, without.ms * (1 + o.latency_slack) + 1e-9) << seed;
    saved += with.stats.saved_forwards, drafted += with.stats.draft_states;
    with_ms += with.ms, without_ms += without.ms;
  }
  EXPECT_GT(saved, 50);
  EXPECT_GT(drafted, saved);
  EXPECT_LT(with_ms, without_ms);
}

// Where every row costs as much as the first, a state is not worth it.
TEST(ExactDrafts, NoneWhereRowsCost) {
  DecodeOptions o = {.gen_length = 32, .block_length = 8, .draft = -1};
  for (int64_t rows = 1; rows <= 512; ++rows) o.latency_table.push_back({rows, static_cast<double>(rows)});
  EXPECT_EQ(run(o, 0, 3, 100).stats.draft_states, 0);
}

TEST(ExactDrafts, WhatCannotBeExactIsRefusedByName) {
  const auto refusal = [](auto change) {
    DecodeOptions o = {.draft = 2};
    change(o);
    const Status status = validate(o);
    return status ? std::string() : status.error().message;
  };
  using testing::StartsWith;
  EXPECT_EQ(refusal([](DecodeOptions&) {}), "");
  EXPECT_THAT(refusal([](auto& o) { o.kv = KvChoice::delayed; }), StartsWith("draft: kv delayed"));
  EXPECT_THAT(refusal([](auto& o) { o.revision = Revision::dual_path, o.acceptance = Acceptance::threshold; }),
              StartsWith("draft: revision dual-path"));
  EXPECT_THAT(refusal([](auto& o) { o.revision = Revision::wino, o.acceptance = Acceptance::threshold; }),
              StartsWith("draft: revision wino"));
  EXPECT_THAT(refusal([](auto& o) { o.temperature = 0.5; }), StartsWith("draft: compares best tokens"));
  EXPECT_THAT(refusal([](auto& o) { o.repeat_penalty = 1.5; }), StartsWith("draft: compares best tokens"));
  EXPECT_THAT(refusal([](auto& o) { o.draft = 17; }), StartsWith("draft: found 17"));
}

}  // namespace
}  // namespace llada::decode::exact_drafts
