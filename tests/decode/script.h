// Scripted predictions: a strategy is run without a model. A script answers for one asked position;
// ScriptRunner keeps every plan it was given and holds a K/V store of positions, so a plan that reads what
// was never computed is an error.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "base/random.h"
#include "decode/canvas.h"
#include "decode/denoiser.h"
#include "decode/strategy.h"

namespace llada::decode {

// The other side of a step: a script in the place of a model on a device.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  // forward_number counts the forwards of this run from 0; a sparse plan that is not empty takes the number after it.
  virtual Result<StepResult> run(const StepPlan& plan, int64_t forward_number) = 0;
};

// Runs one request until it is done. on_step may be empty; false cancels after the step that was just applied. On an
// error the canvas is as the last finished step left it.
inline Result<RunStats> denoise(Canvas& canvas, Strategy& strategy, StepRunner& runner,
                                const std::function<bool(const StepEvent&)>& on_step) {
  // Lent, not given: the caller keeps the strategy, and gets the canvas back whatever happens.
  Denoiser denoiser(std::move(canvas), std::shared_ptr<Strategy>(std::shared_ptr<Strategy>(), &strategy));
  const auto run = [&]() -> Status {
    while (!denoiser.done()) {
      LLADA_TRY(const StepPlan& plan, denoiser.plan());
      LLADA_TRY(auto result, runner.run(plan, denoiser.forward_number()));
      LLADA_TRY(const StepEvent event, denoiser.take(std::move(result)));
      if (on_step && !on_step(event)) denoiser.cancel();
    }
    return {};
  };
  const Status status = run();
  canvas = std::move(denoiser.canvas());
  LLADA_TRY_STATUS(status);
  return denoiser.stats();
}

// Ten tokens: 0 to 6 are text.
inline constexpr int32_t kEos = 7, kEot = 8, kMask = 9;
inline SpecialIds test_ids() { return {.mask = kMask, .eos = kEos, .eot = kEot, .end_ids = {kEos, kEot}}; }

inline const std::vector<int32_t> kPrompt = {1, 1};

using Script = std::function<Prediction(const StepPlan& plan, int64_t forward, int32_t position)>;

class ScriptRunner : public StepRunner {
 public:
  explicit ScriptRunner(Script script) : script_(std::move(script)) {}

  Result<StepResult> run(const StepPlan& plan, int64_t forward_number) override {
    EXPECT_EQ(forward_number, forwards_);
    forwards_ += forwards_of(plan);
    stored_.resize(std::max(stored_.size(), static_cast<size_t>(plan.keys)), false);
    if (!plan.sparse.empty() && std::count(stored_.begin(), stored_.begin() + plan.sparse.keys, false) > 0)
      return failed("a sparse plan reads positions that were never computed");
    for (const int32_t row : plan.rows) stored_[static_cast<size_t>(row)] = true;
    for (int32_t key = 0; key < plan.keys; ++key) {
      if (!stored_[static_cast<size_t>(key)]) return failed("position {} is read but was never computed", key);
    }
    StepResult result;
    for (const int32_t position : plan.logits) result.predictions.push_back(script_(plan, forward_number, position));
    for (const Trial& trial : plan.trials)
      result.trials.push_back(script_(as_plan(trial, plan.keys), forward_number, trial.logits));
    if (!plan.sparse.empty()) {
      beside_ = {.sparse = {}, .landed = forward_number + 1};
      ended_ = std::ssize(plans) + pass_steps(std::ssize(plans));
      for (const Trial& trial : plan.sparse.trials)
        beside_.sparse.push_back(script_(as_plan(trial, plan.sparse.keys), forward_number + 1, trial.logits));
    }
    using enum Landing::When;
    if (plan.landing.when == waited || (plan.landing.when == if_there && std::ssize(plans) >= ended_)) {
      result.sparse = beside_.sparse, result.landed = beside_.landed;
      landed.push_back(std::ssize(plans));
    }
    plans.push_back(plan);
    return result;
  }

  std::vector<StepPlan> plans;
  std::vector<int64_t> landed;  // steps at whose end a sparse pass landed
  // How many steps after the one that begins it a pass is there.
  std::function<int64_t(int64_t step)> pass_steps = [](int64_t) { return 0; };

 private:
  // What a trial is fed, for scripts that look at it.
  static StepPlan as_plan(const Trial& trial, int32_t keys) {
    return {.rows = trial.rows, .inputs = trial.inputs, .logits = {trial.logits}, .keys = keys};
  }

  Script script_;
  int64_t forwards_ = 0;
  StepResult beside_;
  int64_t ended_ = 0;
  std::vector<bool> stored_;
};

// One number of everything a forward is fed, so that predictions depend on the whole visible canvas.
inline uint64_t digest(const StepPlan& plan) {
  uint64_t h = 1;
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    h = mix64(h ^ (static_cast<uint64_t>(plan.rows[i]) << 32 | static_cast<uint32_t>(plan.inputs[i])));
  }
  return h;
}

// Predictions at random, the same for the same inputs. Probabilities have 20 levels, so ties are common.
// ends: the chance of an end token, in 16ths.
inline Script random_script(uint64_t seed, uint64_t ends = 2) {
  return [=, cached = std::pair<int64_t, uint64_t>(-1, 0)](const StepPlan& plan, int64_t forward,
                                                           int32_t position) mutable {
    if (cached.first != forward) cached = {forward, digest(plan)};
    const uint64_t h = mix64(seed * kRandomStep ^ cached.second ^ (static_cast<uint64_t>(position) + 1) * kRandomStep);
    Prediction p;
    p.position = position;
    p.token = h % 16 < ends ? static_cast<int32_t>(kEos + (h >> 8) % 2) : static_cast<int32_t>((h >> 16) % 7);
    p.probability = static_cast<double>((h >> 24) % 20 + 1) / 20;
    p.entropy = static_cast<double>((h >> 40) % 50) / 25;
    p.runner_up = (p.token + 1) % kMask;
    p.margin = p.probability > 0.5 ? 2 * p.probability - 1 : p.probability / 2;
    return p;
  };
}

struct Outcome {
  Canvas canvas;
  RunStats stats;
  std::vector<std::vector<std::pair<int32_t, int32_t>>> trace;  // per step: positions and tokens
  std::vector<StepPlan> plans;
};

// Lays, runs and records; a refusal fails the test.
inline Outcome run_script(const DecodeOptions& options, Canvas canvas, Script script,
                          const SpecialIds& ids = test_ids()) {
  Outcome outcome;
  auto strategy = make_strategy(options, ids, canvas);
  if (!strategy) {
    ADD_FAILURE() << strategy.error().message;
    return outcome;
  }
  ScriptRunner runner(std::move(script));
  const auto record = [&](const StepEvent& event) {
    outcome.trace.emplace_back();
    for (const Edit& edit : event.edits) outcome.trace.back().emplace_back(edit.position, edit.token);
    return true;
  };
  const auto stats = denoise(canvas, **strategy, runner, record);
  if (!stats) {
    ADD_FAILURE() << stats.error().message;
    return outcome;
  }
  EXPECT_LE(stats->steps, (*strategy)->step_bound());
  outcome.stats = *stats;
  outcome.canvas = std::move(canvas);
  outcome.plans = std::move(runner.plans);
  return outcome;
}

inline Outcome run_script(const DecodeOptions& options, std::vector<int32_t> prompt, Script script) {
  return run_script(options, lay_generation(prompt, options.gen_length, test_ids()), std::move(script));
}

}  // namespace llada::decode
