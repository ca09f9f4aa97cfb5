// Revision, step by step on worked examples: what is looked at, what changes, and when it is over.
#include "decode/revision.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/random.h"
#include "decode/dual_path.h"
#include "decode/script.h"
#include "decode/token_editing.h"

namespace llada::decode {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

// Answers by position, forward and whether it is a trial (its one row, or its last, is asked).
using Answer = std::function<std::pair<int32_t, double>(int32_t position, int64_t forward, bool trial)>;
Script script(Answer answer, std::function<int32_t()> runner_up = [] { return 6; }) {
  return [=](const StepPlan& plan, int64_t forward, int32_t position) {
    const bool trial = plan.rows.size() < static_cast<size_t>(plan.keys) && plan.block_end == 0;
    const auto [token, probability] = answer(position, forward, trial);
    return Prediction{.position = position,
                      .token = token,
                      .probability = probability,
                      .entropy = 0,
                      .margin = probability / 2,
                      .runner_up = runner_up()};
  };
}

DecodeOptions dual(int64_t length) {
  DecodeOptions o;
  o.gen_length = length;
  o.block_length = length;
  o.acceptance = Acceptance::threshold;
  o.threshold = 0.7;
  o.revision = Revision::dual_path;
  o.early_stop = EarlyStop::none;
  return o;
}

// Positions behind the first `length` of them are decided one a step, from step 1 on, and final at once: so many steps
// still have a mask, and look at what is visible.
Script beside_open(int32_t length, Answer answer) {
  return script([=](int32_t p, int64_t forward, bool trial) -> std::pair<int32_t, double> {
    const int64_t filler = p - std::ssize(kPrompt) - length;
    if (filler < 0) return answer(p, forward, trial);
    return {0, forward > filler ? 0.95 : 0.01};
  });
}

std::vector<std::vector<int32_t>> trials(const Outcome& outcome) {
  std::vector<std::vector<int32_t>> all;
  for (const StepPlan& plan : outcome.plans) {
    all.emplace_back();
    for (const auto* list : {&plan.trials, &plan.sparse.trials})
      for (const Trial& trial : *list) all.back().push_back(trial.rows.back());
  }
  return all;
}

TEST(DualPath, StatesAndChecks) {
  // 2: stable at once (0.95). 3: visible (0.8), a check disagrees firmly. 4: not accepted in the first step.
  const Outcome o = run_script(dual(5), kPrompt,
                               beside_open(3, [](int32_t p, int64_t forward, bool trial) -> std::pair<int32_t, double> {
                                 if (p == 2) return {0, 0.95};
                                 if (p == 3) return {trial ? 5 : 1, 0.8};
                                 return {2, forward == 0 ? 0.5 : 0.75};
                               }));
  // Step 1 decides 4 and checks 3, which becomes 5; step 2 checks 3 (agrees: stable) and 4 (the same).
  EXPECT_THAT(trials(o), ElementsAre(IsEmpty(), ElementsAre(3), ElementsAre(3, 4)));
  EXPECT_THAT(o.trace, ElementsAre(ElementsAre(Pair(2, 0), Pair(3, 1)), ElementsAre(Pair(3, 5), Pair(4, 2), Pair(5, 0)),
                                   ElementsAre(Pair(3, 5), Pair(4, 2), Pair(6, 0))));
  EXPECT_THAT(o.canvas.tokens, ElementsAre(1, 1, 0, 5, 2, 0, 0));
  EXPECT_EQ(std::ranges::count(o.canvas.states, TokenState::stable), 5);
  EXPECT_EQ(o.stats.counters.revisions_made, 3);
  EXPECT_EQ(o.stats.counters.revisions_changed, 1);
  EXPECT_EQ(o.stats.nfe, 3);
  EXPECT_EQ(o.stats.trial_rows, 3);
  EXPECT_EQ(o.stats.rows, 3 * 7 + 3) << "without a cache every row is computed, trials come on top";
}

TEST(DualPath, AConfidenceOfTheThresholdIsFinal) {
  DecodeOptions o = dual(3);
  o.stable_threshold = 0.75;  // what a double holds exactly
  const Outcome run = run_script(o, kPrompt, beside_open(2, [](int32_t p, int64_t, bool) -> std::pair<int32_t, double> {
                                   return {p == 2 ? 0 : 1, p == 2 ? 0.75 : std::nextafter(0.75, 0.0)};
                                 }));
  EXPECT_THAT(trials(run), ElementsAre(IsEmpty(), ElementsAre(3)));
}

TEST(DualPath, TrialsFeedTheMaskAtTheTargetAlone) {
  const Outcome o = run_script(dual(4), kPrompt, beside_open(3, [](int32_t, int64_t forward, bool) {
                                 return std::pair<int32_t, double>(3, forward == 0 ? 0.8 : 0.85);
                               }));
  ASSERT_EQ(o.plans.size(), 2u);
  ASSERT_EQ(o.plans[1].trials.size(), 3u);
  for (const Trial& trial : o.plans[1].trials) {
    EXPECT_EQ(trial.rows, std::vector<int32_t>{trial.logits});
    EXPECT_THAT(trial.inputs, ElementsAre(kMask));
  }
  EXPECT_THAT(o.plans[1].inputs, ElementsAre(1, 1, 3, 3, 3, kMask));
}

TEST(DualPath, AnUnsureObjectionLeavesTheToken) {
  const Outcome o = run_script(dual(2 + 5), kPrompt, beside_open(2, [](int32_t, int64_t, bool trial) {
                                 return trial ? std::pair(4, 0.6) : std::pair(3, 0.8);
                               }));
  EXPECT_THAT(o.canvas.tokens, ElementsAre(1, 1, 3, 3, 0, 0, 0, 0, 0));
  EXPECT_EQ(o.stats.counters.revisions_made, 2 * kMostChecks);
  EXPECT_EQ(o.stats.nfe, 1 + 5);
  EXPECT_THAT(trials(o).back(), IsEmpty()) << "final after so many checks";
  EXPECT_EQ(o.stats.counters.revisions_changed, 0);
}

TEST(DualPath, OfTwoNeighboursOnlyTheMoreProbableChanges) {
  const Outcome o = run_script(dual(5), kPrompt, beside_open(3, [](int32_t p, int64_t forward, bool trial) {
                                 if (!trial) return std::pair(3, 0.8);
                                 return std::pair(forward == 1 ? 4 : p == 3 ? 4 : 3, p == 3 ? 0.85 : 0.8);
                               }));
  // All three checks of step 1 object; 3 is the most probable, 2 and 4 wait and then agree with what they
  // are.
  EXPECT_THAT(o.trace.at(1), ElementsAre(Pair(3, 4), Pair(5, 0)));
  EXPECT_THAT(o.canvas.tokens, ElementsAre(1, 1, 3, 4, 3, 0, 0));
}

TEST(DualPath, FlippingForeverEnds) {
  const Outcome o = run_script(dual(4 + 6), kPrompt, beside_open(4, [](int32_t p, int64_t forward, bool) {
                                 return std::pair(static_cast<int32_t>((forward + p) % 5), 0.8);
                               }));
  EXPECT_EQ(o.stats.nfe, 1 + 6);
  EXPECT_EQ(o.stats.counters.revisions_made, 4 * kMostChecks);
  EXPECT_EQ(std::ranges::count(o.canvas.states, TokenState::stable), 10);
}

TEST(DualPath, SeparatePathReadsBesideTheStep) {
  DecodeOptions options = dual(6);
  options.block_length = 3;
  options.revise_lateness = 0;
  options.kv = KvChoice::dual, options.slide = true;
  options.revise_rows = 1;
  const Outcome o = run_script(
      options, kPrompt, script([](int32_t p, int64_t, bool trial) { return std::pair(trial && p == 2 ? 5 : 3, 0.8); }));
  // Step 0 decides block one; step 1 decides block two and checks 2, which turns into 5.
  ASSERT_GE(o.plans.size(), 2u);
  EXPECT_TRUE(o.plans[0].sparse.empty());
  EXPECT_THAT(o.plans[1].trials, IsEmpty());
  ASSERT_EQ(o.plans[1].sparse.trials.size(), 1u);
  EXPECT_EQ(o.plans[1].sparse.trials[0].logits, 2);
  EXPECT_THAT(o.plans[1].sparse.rows, ElementsAre(2, 3, 4)) << "just committed, before the block: refreshed there";
  EXPECT_EQ(o.stats.sparse_forwards, 1);
  EXPECT_EQ(o.stats.nfe, o.stats.steps + 1);
  EXPECT_EQ(o.canvas.tokens[2], 5);
}

// A horizon that moves on (a tail behind a sliding block, a length that grows) has positions that the step computes for
// the first time. The pass beside it reads those before them, so no check waits in the step's own rows.
TEST(DualPath, EveryCheckIsBesideTheStepWhateverItReads) {
  for (const bool slide : {false, true})
    for (const int64_t tail : {int64_t{0}, int64_t{3}, int64_t{-1}})
      for (const bool grows : {false, true})
        for (const int64_t lateness : {int64_t{0}, int64_t{1}, kReady}) {
          DecodeOptions options = dual(48);
          options.block_length = 6, options.kv = KvChoice::dual, options.refresh_after = 3;
          options.slide = slide, options.tail = tail;
          if (grows) options.auto_length = true, options.early_stop = EarlyStop::answer;
          options.revise_lateness = lateness, options.threshold = 0.7, options.stable_threshold = 0.95;
          int64_t steps = 0;
          for (uint64_t seed = 0; seed < 20; ++seed) {
            const Outcome o = run_script(options, kPrompt, script([&](int32_t p, int64_t forward, bool) {
                                           const double x = uniform(seed, static_cast<uint64_t>(forward),
                                                                    static_cast<uint64_t>(p), 0);
                                           return std::pair(x < 0.2 ? 4 : 3, 0.5 + 0.48 * x);
                                         }));
            for (const StepPlan& plan : o.plans) {
              ASSERT_THAT(plan.trials, IsEmpty());
              steps += !plan.sparse.trials.empty();
            }
          }
          EXPECT_GE(steps, 40) << "slide " << slide << ", tail " << tail << ", grows " << grows << ", " << lateness;
        }
}

// Two tokens a step, block by block; a check of any token says 5.
Outcome late(
    int64_t lateness, std::function<int64_t(int64_t)> pass_steps = {}, std::vector<int64_t>* landed = nullptr,
    void (*with)(DecodeOptions&) = [](DecodeOptions&) {}) {
  DecodeOptions options = dual(12);
  options.block_length = 2;
  options.revise_lateness = lateness;
  options.kv = KvChoice::dual;
  options.revise_rows = 1;
  with(options);
  const auto say = script([](int32_t, int64_t, bool trial) { return std::pair(trial ? 5 : 3, 0.8); });
  Canvas canvas = lay_generation(kPrompt, options.gen_length, test_ids());
  auto strategy = *make_strategy(options, test_ids(), canvas);
  ScriptRunner runner(say);
  if (pass_steps) runner.pass_steps = std::move(pass_steps);
  Outcome outcome;
  const auto stats = denoise(canvas, *strategy, runner, [&](const StepEvent& event) {
    outcome.trace.emplace_back();
    for (const Edit& edit : event.edits)
      if (edit.token == 5) outcome.trace.back().emplace_back(edit.position, edit.token);
    return true;
  });
  EXPECT_TRUE(stats);
  outcome.stats = *stats, outcome.canvas = canvas, outcome.plans = runner.plans;
  if (landed != nullptr) *landed = runner.landed;
  return outcome;
}

std::vector<size_t> passes_of(const Outcome& outcome) {
  std::vector<size_t> steps;
  for (size_t i = 0; i < outcome.plans.size(); ++i)
    if (!outcome.plans[i].sparse.empty()) steps.push_back(i);
  return steps;
}

// Results are used exactly so many steps later, and no pass begins while one is under way.
TEST(DualPath, ResultsLandAsLateAsIsSaid) {
  const Outcome now = late(0), two = late(2);
  EXPECT_THAT(passes_of(now), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(passes_of(two), ElementsAre(1, 4));
  EXPECT_THAT(now.trace[1], ElementsAre(Pair(2, 5))) << "of the step that saw the same canvas";
  EXPECT_THAT(two.trace[1], IsEmpty());
  EXPECT_THAT(two.trace[2], IsEmpty());
  EXPECT_THAT(two.trace[3], ElementsAre(Pair(2, 5)));
  EXPECT_EQ(two.plans[3].landing.when, Landing::When::waited);
}

// The step computes what was a mask when its K/V was, since its own rows read that. The pass computes it for its trials,
// and stores what was revised: no row that a step has computed meanwhile.
TEST(DualPath, ARefreshedRowThatHasChangedIsNotStored) {
  const Outcome o = late(1, {}, nullptr, [](DecodeOptions& options) { options.slide = true; });
  EXPECT_THAT(o.plans[1].sparse.rows, ElementsAre(2, 3)) << "committed in step 0";
  EXPECT_THAT(o.plans[1].rows, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(o.plans[1].landing.stored, IsEmpty()) << "not yet";
  EXPECT_EQ(o.plans[2].landing.when, Landing::When::waited);
  EXPECT_THAT(o.plans[2].landing.stored, IsEmpty());
  EXPECT_THAT(o.trace[2], ElementsAre(Pair(2, 5)));
  EXPECT_THAT(o.plans[3].sparse.rows, ElementsAre(2, 6, 7)) << "revised, and committed in step 2";
  EXPECT_THAT(o.plans[3].rows, ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(o.plans[4].landing.stored, ElementsAre(2));
  const Outcome full =
      late(1, {}, nullptr, [](DecodeOptions& options) { options.slide = true, options.refresh_after = 2; });
  EXPECT_THAT(full.plans[3].sparse.rows, testing::Contains(2));
  EXPECT_EQ(std::ssize(full.plans[4].rows), full.plans[4].keys) << "which computes every row";
  EXPECT_EQ(full.plans[4].landing.when, Landing::When::waited);
  EXPECT_THAT(full.plans[4].landing.stored, IsEmpty());
}

// As late as they are there: equal to a fixed lateness where every pass takes that long, and never waited for.
TEST(DualPath, ReadyResultsAreTheSameAsLateOnes) {
  for (const int64_t steps : {0, 1, 2, 4}) {
    const Outcome fixed = late(steps), ready = late(kReady, [&](int64_t) { return steps; });
    EXPECT_EQ(fixed.trace, ready.trace) << steps;
    EXPECT_EQ(fixed.canvas.tokens, ready.canvas.tokens) << steps;
  }
  std::vector<int64_t> landed;
  const Outcome never = late(kReady, [](int64_t) { return 1000; }, &landed);
  const auto last = std::ssize(never.plans) - 1;
  EXPECT_THAT(landed, ElementsAre(last)) << "when all is decided";
  EXPECT_THAT(passes_of(never), ElementsAre(1));
  for (const StepPlan& plan : std::span(never.plans).first(static_cast<size_t>(last)))
    EXPECT_NE(plan.landing.when, Landing::When::waited);
  EXPECT_EQ(forwards_of(never.plans.back()), 0);
  EXPECT_EQ(std::ranges::count(never.canvas.states, TokenState::stable), 12) << "and what was not looked at";
}

// Whatever passes take, every run ends with all decided, and no token is checked more often than it may be.
TEST(DualPath, AnyLatenessEnds) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Outcome o = late(kReady, [&](int64_t step) {
      return static_cast<int64_t>(8 * uniform(seed, static_cast<uint64_t>(step), 0, 0));
    });
    EXPECT_EQ(std::ranges::count(o.canvas.states, TokenState::stable), 12) << seed;
    EXPECT_LE(o.stats.counters.revisions_made, 12 * kMostChecks) << seed;
  }
}

TEST(DualPath, NothingBehindADecidedEndIsLookedAt) {
  const Outcome o = run_script(dual(4), kPrompt, script([](int32_t p, int64_t forward, bool) {
                                 return std::pair(p == 4 ? kEot : 3, p == 2 && forward == 0 ? 0.1 : 0.8);
                               }));
  EXPECT_THAT(trials(o), ElementsAre(IsEmpty(), ElementsAre(3, 4)));
}

TEST(DualPath, WhatIsVisibleWhenAllIsDecidedIsFinal) {
  const Outcome o = run_script(dual(3), kPrompt, script([](int32_t, int64_t, bool) { return std::pair(2, 0.8); }));
  EXPECT_EQ(o.stats.nfe, 1);
  EXPECT_EQ(std::ranges::count(o.canvas.states, TokenState::stable), 3);
}

// By turns the oldest and the least confident.
TEST(DualPath, NoTokenWaitsForEver) {
  DecodeOptions options = dual(6);
  options.revise_rows = 1;
  // 2 and 3 are decided in step 0, 4 in step 1, 5 in step 2, 6 and 7 last.
  const Outcome o = run_script(options, kPrompt, script([](int32_t p, int64_t forward, bool trial) {
                                 if (trial) return std::pair(3, 0.6);
                                 const bool now = forward >= std::max(0, p - 3);
                                 return std::pair(2, !now ? 0.1 + 0.01 * p : p == 5 ? 0.72 : p == 3 ? 0.75 : 0.85);
                               }));
  std::vector<int32_t> order;
  for (const auto& step : trials(o))
    if (step.size() == 1) order.push_back(step[0]);
  order.resize(3);
  // The oldest, of equals the first; its check leaves it with confidence 1 - 0.6, the least; then 3 is the oldest.
  EXPECT_THAT(order, ElementsAre(2, 2, 3));
}

DecodeOptions plain(Revision revision, int64_t length) {
  DecodeOptions o = dual(length);
  o.revision = revision;
  o.threshold = 0.6;
  return o;
}

TEST(TokenEditing, WritesOverAndStopsWhenNothingChanges) {
  DecodeOptions options = plain(Revision::edit, 2);
  options.edit_threshold = 0.5;
  // Position 2 is decided as 3, then its own row says 4 with 0.6 (above), then 4 for good; 3 hears 0.5 (not
  // above).
  const Outcome o = run_script(options, kPrompt, script([](int32_t p, int64_t forward, bool) {
                                 if (forward == 0) return std::pair(3, 0.9);
                                 return p == 2 ? std::pair(4, 0.6) : std::pair(5, 0.5);
                               }));
  EXPECT_THAT(o.trace, ElementsAre(ElementsAre(Pair(2, 3), Pair(3, 3)), ElementsAre(Pair(2, 4)),
                                   ElementsAre(Pair(2, 4), Pair(3, 3))));
  EXPECT_EQ(o.stats.counters.revisions_changed, 1);
  EXPECT_THAT(o.plans[1].logits, ElementsAre(2, 3));

  options.edit_steps = 0;
  EXPECT_EQ(run_script(options, kPrompt, script([](int32_t, int64_t, bool) { return std::pair(3, 0.9); })).stats.nfe,
            1);
}

TEST(Revision, ShiftedModelsAreAskedOneRowEarlier) {
  SpecialIds ids = test_ids();
  ids.shift_logits = true;
  Canvas canvas = lay_generation(kPrompt, 3, ids);
  auto strategy = *make_strategy(dual(3), ids, canvas);
  ScriptRunner runner(beside_open(1, [](int32_t row, int64_t, bool) { return std::pair(row + 2, 0.8); }));  // by rows
  ASSERT_TRUE(denoise(canvas, *strategy, runner, {}));
  ASSERT_EQ(runner.plans.size(), 2u);
  EXPECT_THAT(runner.plans[0].logits, ElementsAre(1, 2, 3)) << "rows before positions 2 to 4";
  EXPECT_THAT(canvas.tokens, ElementsAre(1, 1, 3, 4, 0));
  ASSERT_EQ(runner.plans[1].trials.size(), 2u);
  EXPECT_THAT(runner.plans[1].trials[0].rows, ElementsAre(1, 2));
  EXPECT_THAT(runner.plans[1].trials[0].inputs, ElementsAre(1, kMask));
  EXPECT_EQ(runner.plans[1].trials[1].logits, 2);
  EXPECT_THAT(runner.plans[1].trials[1].inputs, ElementsAre(3, kMask));
}

}  // namespace
}  // namespace llada::decode
