// A followed recording makes the plans of the run that was recorded, whatever the model says meanwhile.
#include "lab/bench/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "decode/block_causal.h"
#include "decode/canvas.h"
#include "decode/denoiser.h"

namespace llada::bench::replay {
namespace {

using decode::StepPlan;
using testing::HasSubstr;

constexpr int32_t kMaskId = 99, kEnd = 90;

// block: of a block-causal model; 0: full attention.
decode::SpecialIds ids_of(int64_t block) {
  return {.mask = kMaskId, .eos = kEnd, .eot = kEnd, .end_ids = {kEnd}, .attention_block = block};
}

// Predictions of a seed, by forward and position: a fifth of them sure, no ends before position `end`.
class Random final : public decode::StepRunner {
 public:
  Random(uint64_t seed, int32_t end) : seed_(seed), end_(end) {}

  Result<decode::StepResult> run(const StepPlan& plan, int64_t forward) override {
    plans.push_back(plan);
    decode::StepResult out;
    for (const int32_t p : plan.logits) out.predictions.push_back(predicted(forward, p));
    for (const decode::Trial& trial : plan.trials) out.trials.push_back(predicted(forward, trial.logits));
    for (const decode::Trial& trial : plan.sparse.trials) out.sparse.push_back(predicted(forward + 1, trial.logits));
    if (plan.landing.when == decode::Landing::When::waited) out.landed = forward + 1;
    return out;
  }
  std::vector<StepPlan> plans;

 private:
  decode::Prediction predicted(int64_t forward, int32_t position) const {
    const double u = uniform(seed_, static_cast<uint64_t>(forward), static_cast<uint64_t>(position), 0);
    const auto token = position >= end_ ? kEnd : static_cast<int32_t>(u * 80);
    return {.position = position, .token = token, .probability = u < 0.2 ? 0.99 : 0.3 + u / 2, .margin = 0.1};
  }
  const uint64_t seed_;
  const int32_t end_;
};

struct Recorded {
  RecordedRun run;
  std::vector<StepPlan> plans;
};

// What a run over `runner` does and asks.
template <class Runner>
Recorded record(const decode::DecodeOptions& options, int64_t prompt, int64_t block, Runner runner) {
  const decode::SpecialIds ids = ids_of(block);
  const std::vector<int32_t> tokens(static_cast<size_t>(prompt), 1);
  decode::Canvas canvas = decode::lay_generation(tokens, options.gen_length, ids);
  auto strategy = decode::make_strategy(options, ids, canvas);
  EXPECT_TRUE(strategy) << strategy.error().message;
  RunRecorder recorder("name", "", "task", 0, block);
  const auto stats = decode::denoise(canvas, **strategy, runner, [&](const decode::StepEvent& event) {
    recorder.step(event);
    return true;
  });
  EXPECT_TRUE(stats) << stats.error().message;
  // Through the file's text, as it is in use.
  const auto parsed = parse_recording(recording_header("m") + recording_lines(recorder.run()), "text");
  EXPECT_TRUE(parsed) << parsed.error().message;
  return {parsed->runs.at(0), runner.plans};
}

Recorded record(const decode::DecodeOptions& options, uint64_t seed, int64_t prompt) {
  return record(options, prompt, 0, Random(seed, static_cast<int32_t>(prompt) + 40));
}

// Those for full attention.
std::vector<decode::DecodeOptions> strategies() {
  decode::DecodeOptions plain = {decode::LengthOptions{.gen_length = 96},
                                 decode::AcceptanceOptions{.acceptance = decode::Acceptance::threshold}};
  std::vector<decode::DecodeOptions> all(6, plain);
  all[1].kv = decode::KvChoice::dual, all[1].mbsd = true, all[1].mbsd_trigger = 20;
  all[2].kv = decode::KvChoice::frozen, all[2].slide = true, all[2].tail = 16;
  all[3].kv = decode::KvChoice::block, all[3].revision = decode::Revision::dual_path;
  all[3].revise_lateness = 0, all[3].threshold = 0.7;
  all[4].revision = decode::Revision::edit, all[4].tail = 8;
  all[5].revision = decode::Revision::dual_path, all[5].threshold = 0.6, all[5].kv = decode::KvChoice::prefix;
  return all;
}

// The plans that a recorded run makes when it is followed.
template <class Runner>
std::vector<StepPlan> followed(const RecordedRun& run, Runner runner) {
  decode::Canvas canvas = decode::lay_generation(std::vector<int32_t>(static_cast<size_t>(run.prompt_tokens), 1),
                                                 run.positions - run.prompt_tokens, ids_of(run.attention_block));
  const auto strategy = replay_strategy(run, kEnd);
  EXPECT_TRUE(strategy) << strategy.error().message;
  const auto stats = decode::denoise(canvas, **strategy, runner, [](const decode::StepEvent&) { return true; });
  EXPECT_TRUE(stats) << stats.error().message;
  return runner.plans;
}

TEST(Replay, MakesThePlansThatWereRecorded) {
  for (const decode::DecodeOptions& options : strategies()) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const Recorded recorded = record(options, seed, static_cast<int64_t>(5 + 7 * seed));
      const std::vector<StepPlan> plans = followed(recorded.run, Random(seed + 100, INT32_MAX));
      ASSERT_EQ(plans.size(), recorded.plans.size());
      for (size_t i = 0; i < plans.size(); ++i) {
        const StepPlan &got = plans[i], &was = recorded.plans[i];
        EXPECT_EQ(got.rows, was.rows);
        EXPECT_EQ(got.logits, was.logits);
        EXPECT_EQ(got.keys, was.keys);
        EXPECT_EQ(got.trials.size(), was.trials.size());
        EXPECT_EQ(got.sparse.rows, was.sparse.rows);
        for (size_t r = 0; r < got.rows.size(); ++r)  // ends are written as other tokens
          EXPECT_EQ(got.inputs[r] == kMaskId, was.inputs[r] == kMaskId) << "row " << got.rows[r];
      }
    }
  }
}

// The runner has a store, and fails where a plan reads what was never computed.
TEST(Replay, FollowsABlockCausalModel) {
  for (const int64_t block : {16, 32}) {
    decode::DecodeOptions options = {
        decode::LengthOptions{.gen_length = 128, .block_length = block},
        decode::AcceptanceOptions{.acceptance = decode::Acceptance::threshold, .threshold = 0.8}};
    for (uint64_t seed = 0; seed < 8; ++seed) {
      options.kv = seed % 4 == 0 ? decode::KvChoice::block : decode::KvChoice::frozen;
      const Recorded recorded =
          record(options, static_cast<int64_t>(3 + 11 * seed), block, decode::BlockCausalModel(seed, block));
      EXPECT_EQ(recorded.run.attention_block, block);
      const std::vector<StepPlan> plans = followed(recorded.run, decode::BlockCausalModel(seed + 50, block));
      ASSERT_EQ(plans.size(), recorded.plans.size());
      for (size_t i = 0; i < plans.size(); ++i) {
        EXPECT_EQ(plans[i].rows, recorded.plans[i].rows);
        EXPECT_EQ(plans[i].logits, recorded.plans[i].logits);
        EXPECT_EQ(plans[i].keys, recorded.plans[i].keys);
      }
    }
  }
}

TEST(Replay, CountsTheAnswerWithoutItsPadding) {
  // Forty positions of text, then ends, of which some are decided before the answer is.
  const Recorded recorded = record(strategies()[0], 1, 6);
  int64_t decided = 0;
  for (const RecordedStep& step : recorded.run.steps) decided += step.committed;
  EXPECT_GT(decided, 41);
  EXPECT_EQ(answer_tokens(recorded.run), 40);
}

TEST(Replay, TakesTheNearestRunsOfEachStrategy) {
  Recording recording;
  for (const int64_t prompt : {5, 60, 80, 200}) {
    for (const char* name : {"a", "b"}) {
      RecordedRun run = record(strategies()[0], 3, prompt).run;
      run.strategy = name;
      recording.runs.push_back(run);
    }
  }
  recording.runs.push_back(recording.runs[2]);  // one more of "a" behind a prompt of 60
  const auto chosen = nearest_runs(recording, 70, 41, 2);
  ASSERT_EQ(chosen.size(), 2u);
  std::vector<int64_t> prompts;
  for (const auto& runs : chosen)
    for (const RecordedRun& run : runs) prompts.push_back(run.prompt_tokens);
  EXPECT_THAT(prompts, testing::ElementsAre(60, 80, 60, 80));
}

TEST(Replay, WhatIsNotFollowedIsNamed) {
  RecordedRun run = record(strategies()[0], 1, 6).run;
  run.guided = true;
  EXPECT_THAT(replay_strategy(run, kEnd).error().message, HasSubstr("guidance"));
  run.guided = false, run.steps.clear();
  EXPECT_THAT(replay_strategy(run, kEnd).error().message, HasSubstr("no step"));
}

}  // namespace
}  // namespace llada::bench::replay
