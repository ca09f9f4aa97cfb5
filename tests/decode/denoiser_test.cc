// A Denoiser holds every side to its contract, cancels cleanly and reports what happened, alone or among others.
#include "decode/denoiser.h"

#include <gmock/gmock.h>

#include "decode/answer.h"
#include "decode/script.h"
#include "must.h"

namespace llada::decode {
namespace {

using testing::HasSubstr;

Prediction plain(const StepPlan&, int64_t, int32_t position) {
  return {.position = position, .token = 3, .probability = 0.5};
}

TEST(Denoiser, TellsEveryStep) {
  Canvas canvas = lay_generation(std::vector<int32_t>{1, 2}, 6, test_ids());
  auto strategy = *make_strategy({LengthOptions{.gen_length = 6, .block_length = 3}}, test_ids(), canvas);
  // Later positions first, so the contiguous text grows only when a block is done.
  ScriptRunner runner([](const StepPlan&, int64_t, int32_t position) {
    return Prediction{.position = position, .token = 3, .probability = position / 100.0};
  });
  std::vector<int64_t> committed, begins, steps;
  const auto stats = denoise(canvas, *strategy, runner, [&](const StepEvent& event) {
    EXPECT_EQ(event.edits.size(), 1u);
    EXPECT_EQ(event.canvas.tokens[static_cast<size_t>(event.edits[0].position)], 3) << "already applied";
    EXPECT_EQ(event.predictions.size(), event.plan.logits.size());
    EXPECT_EQ(event.block_end, event.block_begin + 3);
    steps.push_back(event.step);
    committed.push_back(event.committed);
    begins.push_back(event.block_begin);
    return true;
  });
  ASSERT_TRUE(stats);
  EXPECT_THAT(steps, testing::ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(committed, testing::ElementsAre(0, 0, 3, 3, 3, 6));
  EXPECT_THAT(begins, testing::ElementsAre(2, 2, 2, 5, 5, 5));
  EXPECT_EQ(stats->steps, 6);
  EXPECT_EQ(stats->nfe, 6);
  EXPECT_EQ(stats->edits, 6);
  EXPECT_EQ(stats->committed, 6);
}

TEST(Denoiser, CancelLeavesTheStepThatWasTold) {
  for (int64_t stop_at = 0; stop_at < 5; ++stop_at) {
    Canvas canvas = lay_generation(std::vector<int32_t>{1, 2}, 10, test_ids());
    Canvas told;
    auto strategy =
        *make_strategy({LengthOptions{.gen_length = 10, .block_length = 4, .steps = 6}}, test_ids(), canvas);
    ScriptRunner runner(random_script(1, 0));
    const auto stats = denoise(canvas, *strategy, runner, [&](const StepEvent& event) {
      told = event.canvas;
      return event.step < stop_at;
    });
    ASSERT_TRUE(stats);
    EXPECT_TRUE(stats->cancelled);
    EXPECT_FALSE(stats->stopped_early);
    EXPECT_EQ(stats->steps, stop_at + 1);
    EXPECT_EQ(static_cast<int64_t>(runner.plans.size()), stop_at + 1);
    EXPECT_EQ(canvas.tokens, told.tokens);
    EXPECT_EQ(canvas.states, told.states);
    EXPECT_EQ(stats->committed, 10 - count_masked(canvas));
    for (size_t i = 0; i < canvas.tokens.size(); ++i) {
      EXPECT_EQ(canvas.tokens[i] == kMask, canvas.states[i] == TokenState::masked);
    }
  }
}

TEST(Denoiser, NoCallbackAndNothingToDoAreFine) {
  Canvas canvas = lay_generation(std::vector<int32_t>{1}, 2, test_ids());
  auto strategy = *make_strategy({LengthOptions{.gen_length = 2}}, test_ids(), canvas);
  ScriptRunner runner(plain);
  ASSERT_TRUE(denoise(canvas, *strategy, runner, {}));
  const auto again = denoise(canvas, *strategy, runner, {});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->nfe, 0);
}

class FailingRunner : public StepRunner {
 public:
  Result<StepResult> run(const StepPlan& plan, int64_t forward) override {
    if (forward == 2) return failed("device lost");
    StepResult out;
    for (const int32_t p : plan.logits) out.predictions.push_back(plain(plan, forward, p));
    return out;
  }
};

TEST(Denoiser, RunnerErrorComesThrough) {
  Canvas canvas = lay_generation(std::vector<int32_t>{1}, 4, test_ids());
  auto strategy = *make_strategy({LengthOptions{.gen_length = 4}}, test_ids(), canvas);
  FailingRunner runner;
  EXPECT_EQ(why_not(denoise(canvas, *strategy, runner, {})), "device lost");
  EXPECT_EQ(count_masked(canvas), 2) << "two finished steps";
}

TEST(Denoiser, NamesABrokenPrediction) {
  const auto error = [](std::function<void(Prediction&)> spoil) {
    Canvas canvas = lay_generation(std::vector<int32_t>{1}, 4, test_ids());
    auto strategy = *make_strategy({LengthOptions{.gen_length = 4}}, test_ids(), canvas);
    ScriptRunner runner([&](const StepPlan& plan, int64_t forward, int32_t position) {
      Prediction p = plain(plan, forward, position);
      if (position == 3) spoil(p);
      return p;
    });
    const auto stats = denoise(canvas, *strategy, runner, {});
    EXPECT_EQ(count_masked(canvas), 4) << "nothing of a bad forward is committed";
    EXPECT_EQ(stats ? ErrorKind::invalid_input : stats.error().kind, ErrorKind::failed);
    return stats ? std::string() : stats.error().message;
  };
  EXPECT_THAT(error([](Prediction& p) { p.token = kMask; }), HasSubstr("position 3: found token 9"));
  EXPECT_THAT(error([](Prediction& p) { p.token = -1; }), HasSubstr("position 3: found token -1"));
  EXPECT_THAT(error([](Prediction& p) { p.probability = 0.0 / 0.0; }), HasSubstr("position 3: found probability"));
  EXPECT_THAT(error([](Prediction& p) { p.probability = 1.5; }), HasSubstr("found probability 1.5"));
  EXPECT_THAT(error([](Prediction& p) { p.entropy = 0.0 / 0.0; }), HasSubstr("entropy"));
  EXPECT_THAT(error([](Prediction& p) { p.position = 2; }), HasSubstr("for position 2, needed 3"));
}

// A strategy that breaks one part of its contract.
class Broken : public Strategy {
 public:
  StepPlan plan(const Canvas& canvas) override {
    StepPlan plan = {.rows = {0, 1, 2}, .inputs = {1, kMask, kMask}, .logits = {1, 2}, .keys = 3, .block_end = 3};
    if (spoil_plan) spoil_plan(plan);
    (void)canvas;
    return plan;
  }
  std::vector<Edit> accept(const Canvas&, const StepResult&) override { return edits; }
  bool done(const Canvas& canvas) const override { return count_masked(canvas) == 0; }
  int64_t step_bound() const override { return 5; }

  std::function<void(StepPlan&)> spoil_plan;
  std::vector<Edit> edits;
};

std::string broken_run(Broken strategy,
                       std::vector<TokenState> states = {TokenState::fixed, TokenState::masked, TokenState::masked}) {
  Canvas canvas = lay_generation(std::vector<int32_t>{1}, 2, test_ids());
  canvas.states = std::move(states);
  const Canvas before = canvas;
  ScriptRunner runner(plain);
  const auto stats = denoise(canvas, strategy, runner, {});
  if (stats) return {};
  EXPECT_EQ(canvas.tokens, before.tokens);
  EXPECT_EQ(stats.error().kind, ErrorKind::failed);
  return stats.error().message;
}

TEST(Denoiser, NamesABrokenEdit) {
  const auto edits = [](std::vector<Edit> list) {
    Broken strategy;
    strategy.edits = std::move(list);
    return broken_run(std::move(strategy));
  };
  const Edit good = {.position = 1, .token = 2};
  EXPECT_THAT(edits({good, {.position = 0, .token = 2}}), HasSubstr("edit: found position 0 after 1"));
  EXPECT_THAT(edits({{.position = 0, .token = 2}}), HasSubstr("position 0 is fixed"));
  EXPECT_THAT(edits({good, {.position = 3, .token = 2}}), HasSubstr("needed ascending ones below 3"));
  EXPECT_THAT(edits({good, {.position = 2, .token = kMask}}), HasSubstr("does not fit"));
  EXPECT_THAT(edits({good, {.position = 2, .token = 1, .state = TokenState::masked}}), HasSubstr("does not fit"));
  EXPECT_EQ(edits({}), "strategy: not done after its bound of 5 steps");
  Broken strategy;
  strategy.edits = {good};
  EXPECT_THAT(broken_run(strategy, {TokenState::fixed, TokenState::stable, TokenState::masked}),
              HasSubstr("position 1 is stable"));
}

TEST(Denoiser, NamesABrokenPlan) {
  const auto plan = [](std::function<void(StepPlan&)> spoil) {
    Broken strategy;
    strategy.spoil_plan = std::move(spoil);
    return broken_run(std::move(strategy));
  };
  EXPECT_THAT(plan([](StepPlan& p) { p.rows = {0, 2, 1}; }), HasSubstr("plan: rows"));
  EXPECT_THAT(plan([](StepPlan& p) { p.rows = {0, 1, 1}; }), HasSubstr("plan: rows"));
  EXPECT_THAT(plan([](StepPlan& p) { p.rows = {-1, 1, 2}; }), HasSubstr("plan: rows"));
  EXPECT_THAT(plan([](StepPlan& p) { p.rows = {}; }), HasSubstr("plan: found no rows"));
  EXPECT_THAT(plan([](StepPlan& p) { p.keys = 2; }), HasSubstr("plan: rows"));
  EXPECT_THAT(plan([](StepPlan& p) { p.keys = 4; }), HasSubstr("found 4 keys"));
  EXPECT_THAT(plan([](StepPlan& p) { p.rows = {0, 1}, p.inputs = {1, 1}; }), HasSubstr("plan: logits"));
  EXPECT_THAT(plan([](StepPlan& p) { p.inputs = {1}; }), HasSubstr("found 1 inputs"));
  EXPECT_THAT(plan([](StepPlan& p) { p.cfg_scale = 1; }), HasSubstr("0 unconditional"));
  EXPECT_THAT(plan([](StepPlan& p) { p.block_end = 4; }), HasSubstr("the block 0 to 4"));
}

// What the next strategies need: visible tokens that are revised, re-masked, and settled.
class Revising : public Broken {
 public:
  std::vector<Edit> accept(const Canvas&, const StepResult&) override {
    using enum TokenState;
    switch (step_++) {
      case 0:
        return {{1, 4, visible}, {2, 5, visible}};
      case 1:
        return {{1, 6, visible}, {2, kMask, masked}};
      default:
        return {{1, 6, stable}, {2, 3, stable}};
    }
  }
  bool done(const Canvas&) const override { return step_ == 3; }

 private:
  int step_ = 0;
};

TEST(Denoiser, CarriesRevision) {
  Canvas canvas = lay_generation(std::vector<int32_t>{1}, 2, test_ids());
  Revising strategy;
  ScriptRunner runner(plain);
  std::vector<int64_t> committed;
  const auto stats = denoise(canvas, strategy, runner, [&](const StepEvent& event) {
    committed.push_back(event.committed);
    return true;
  });
  ASSERT_TRUE(stats);
  EXPECT_THAT(committed, testing::ElementsAre(0, 0, 2)) << "visible text is not final";
  EXPECT_EQ(stats->edits, 5) << "settling without a change is none";
  EXPECT_THAT(canvas.tokens, testing::ElementsAre(1, 6, 3));
}

TEST(Denoiser, PlansOnceAndIsOverAfterABrokenResult) {
  Canvas canvas = lay_generation(std::vector<int32_t>{1}, 4, test_ids());
  auto strategy = *make_strategy({LengthOptions{.gen_length = 4}}, test_ids(), canvas);
  Denoiser denoiser(std::move(canvas), std::move(strategy));
  const StepPlan* plan = &denoiser.plan()->get();
  const StepPlan before = *plan;
  EXPECT_EQ(&denoiser.plan()->get(), plan);
  EXPECT_EQ(plan->rows, before.rows) << "a second look changes nothing";
  EXPECT_EQ(denoiser.forward_number(), 0);
  EXPECT_FALSE(denoiser.take({}));  // no prediction for any mask
  EXPECT_TRUE(denoiser.done());
  EXPECT_EQ(count_masked(denoiser.canvas()), 4);
  EXPECT_EQ(denoiser.stats().steps, 0);
}

TEST(Denoiser, CancelledBetweenStepsKeepsItsMasks) {
  Canvas canvas = lay_generation(std::vector<int32_t>{1}, 4, test_ids());
  auto strategy = *make_strategy({LengthOptions{.gen_length = 4}}, test_ids(), canvas);
  Denoiser denoiser(std::move(canvas), std::move(strategy));
  ScriptRunner runner(plain);
  ASSERT_TRUE(denoiser.take(*runner.run(denoiser.plan()->get(), 0)));
  ASSERT_TRUE(denoiser.plan());
  denoiser.cancel();
  EXPECT_TRUE(denoiser.done());
  EXPECT_TRUE(denoiser.stats().cancelled);
  EXPECT_FALSE(denoiser.stats().stopped_early);
  EXPECT_EQ(count_masked(denoiser.canvas()), 3);
}

// Whose turn it is changes nothing: each one's plans, canvas and stats are those that it has alone.
TEST(Denoiser, InterleavedRequestsDoNotDisturbEachOther) {
  std::vector<DecodeOptions> settings(5);
  for (DecodeOptions& o : settings) o.gen_length = 24, o.block_length = 8, o.acceptance = Acceptance::threshold;
  settings[1].kv = KvChoice::frozen, settings[1].refresh_after = 3;
  settings[2].revision = Revision::dual_path, settings[2].revise_lateness = 0;
  settings[2].kv = KvChoice::dual, settings[2].threshold = 0.3;
  settings[3].cfg_scale = 0.5, settings[3].mbsd = true;
  settings[4].slide = true, settings[4].acceptance = Acceptance::schedule;
  std::vector<Outcome> alone;
  for (size_t i = 0; i < settings.size(); ++i) alone.push_back(run_script(settings[i], kPrompt, random_script(i, 1)));
  for (uint64_t order = 0; order < 20; ++order) {
    std::vector<std::unique_ptr<Denoiser>> running;
    std::vector<ScriptRunner> runners;
    for (size_t i = 0; i < settings.size(); ++i) {
      Canvas canvas = lay_generation(kPrompt, 24, test_ids());
      auto strategy = *make_strategy(settings[i], test_ids(), canvas);
      running.push_back(std::make_unique<Denoiser>(std::move(canvas), std::move(strategy)));
      runners.emplace_back(random_script(i, 1));
    }
    size_t left = settings.size();
    for (uint64_t turn = 0; left > 0; ++turn) {
      const size_t i = mix64(order * kRandomStep + turn) % settings.size();
      if (running[i]->done()) continue;
      const StepPlan& plan = *running[i]->plan();
      ASSERT_TRUE(running[i]->take(*runners[i].run(plan, running[i]->forward_number())));
      left -= running[i]->done();
    }
    for (size_t i = 0; i < settings.size(); ++i) {
      EXPECT_EQ(running[i]->canvas().tokens, alone[i].canvas.tokens) << i;
      EXPECT_EQ(running[i]->stats(), alone[i].stats) << i;
    }
  }
}

}  // namespace
}  // namespace llada::decode
