// What must not change a result: threads, early stop, the K/V policy where it is exact, and who else runs.
// labels of this file: native
#include <gmock/gmock.h>

#include <thread>

#include "decode/canvas.h"
#include "engine/model_runner.h"
#include "golden.h"

namespace llada {
namespace {

const std::string kModel = LLADA_SOURCE_DIR "/models/tiny-llada";

class Invariance : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = load_model(kModel);
    items_ = load_golden(kModel + "/golden.json");
    if (quick()) items_.erase(items_.begin(), items_.begin() + 2);  // the two with the shorter answers stay
  }
  static void TearDownTestSuite() { model_.reset(); }
  std::span<const int32_t> prompt(size_t i) const {
    return std::span(items_[i].canvas).first(static_cast<size_t>(items_[i].prompt_tokens));
  }
  Generation run(Session& session, size_t i, const decode::DecodeOptions& options) {
    return *must(session.generate(prompt(i), options, {}));
  }
  static std::shared_ptr<const Model> model_;
  static std::vector<GoldenItem> items_;
};
std::shared_ptr<const Model> Invariance::model_;
std::vector<GoldenItem> Invariance::items_;

decode::DecodeOptions threshold() {
  decode::DecodeOptions options;
  options.acceptance = decode::Acceptance::threshold;
  if (quick()) options.gen_length = 64;
  return options;
}

TEST_F(Invariance, ThreadCountChangesNothingEvenWhenSampling) {
  decode::DecodeOptions sampled = threshold();
  sampled.temperature = 0.8;
  sampled.seed = 7;
  sampled.cfg_scale = 0.5;
  const auto one = open_session(model_, 1), three = open_session(model_, 3);
  for (size_t i = 0; i < items_.size(); ++i) {
    const Generation a = run(*one, i, sampled), b = run(*three, i, sampled);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.stats.canvas_hash, b.stats.canvas_hash);
  }
}

// labels: long
TEST_F(Invariance, SeedsDifferAndRepeat) {
  decode::DecodeOptions options = threshold();
  options.temperature = 10.0;  // the model is sure of this answer
  const auto session = open_session(model_, 1);
  std::vector<std::vector<int32_t>> runs;
  for (const uint64_t seed : {1, 2, 1}) {
    options.seed = seed;
    runs.push_back(run(*session, items_.size() - 2, options).tokens);
  }
  EXPECT_EQ(runs[0], runs[2]);
  EXPECT_NE(runs[0], runs[1]);
}

// labels: long
TEST_F(Invariance, EarlyStopKeepsTheAnswerAndSavesForwards) {
  const auto session = open_session(model_);
  for (size_t i = 0; i < items_.size(); ++i) {
    decode::DecodeOptions options = threshold();
    options.early_stop = decode::EarlyStop::none;
    const Generation full = run(*session, i, options);
    options.early_stop = decode::EarlyStop::block;
    const Generation block = run(*session, i, options);
    options.early_stop = decode::EarlyStop::answer;
    const Generation answer = run(*session, i, options);
    EXPECT_EQ(full.text, block.text);
    EXPECT_EQ(full.text, answer.text);
    EXPECT_EQ(full.stats.canvas_hash, answer.stats.canvas_hash);
    EXPECT_LE(answer.stats.decode.nfe, block.stats.decode.nfe);
    if (full.stats.content_tokens < options.gen_length - options.block_length) {
      EXPECT_LT(block.stats.decode.nfe, full.stats.decode.nfe);
    }
  }
}

TEST_F(Invariance, ThreadCountChangesNothingWhenRevisingAndSpeculating) {
  const auto one = open_session(model_, 1), three = open_session(model_, 3);
  for (const int64_t lateness : {decode::kFused, int64_t{0}}) {
    decode::DecodeOptions options = threshold();
    options.threshold = 0.95, options.stable_threshold = 0.9999;  // so that some are revised
    options.mbsd_trigger = 32;
    options.kv = decode::KvChoice::prefix;
    options.refresh_after = 5;
    options.mbsd = true;
    options.revision = decode::Revision::dual_path;
    options.revise_lateness = lateness;
    const Generation a = run(*one, 0, options), b = run(*three, 0, options);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.stats.decode.rows, b.stats.decode.rows);
    EXPECT_GT(a.stats.decode.counters.revisions_made, 0);
    EXPECT_GT(a.stats.decode.counters.drafts_proposed, 0);
    EXPECT_EQ(a.stats.decode.sparse_forwards > 0, lateness != decode::kFused);
  }
}

// What a sparse plan reads is the store before the step and what it writes shows in the next one, so it makes
// no difference to the step itself.
TEST_F(Invariance, ASparsePlanIsUnseenByItsStep) {
  const int64_t n = 40;
  const auto tokens = std::span(items_[0].canvas).first(static_cast<size_t>(n));
  auto bare = *RequestState::create(*model_, model_->device(), n, false, {});
  auto busy = *RequestState::create(*model_, model_->device(), n, false, {});
  ModelRunner runner(*model_, model_->device(), nullptr, {});
  const auto run = [&](const decode::StepPlan& plan, RequestState& state) {
    decode::Denoiser denoiser(decode::fixed_canvas(tokens), decode::one_forward(plan));
    RequestStep step{&denoiser, &state};
    runner.run({&step, 1});
    EXPECT_TRUE(step.status) << step.status.error().message;
    return step.result;
  };
  decode::StepPlan full;
  full.keys = static_cast<int32_t>(n);
  for (int32_t p = 0; p < n; ++p) full.rows.push_back(p), full.inputs.push_back(model_->special_ids().mask);
  decode::StepPlan step;
  step.keys = full.keys;
  for (int32_t p = 30; p < 40; ++p) step.rows.push_back(p), step.inputs.push_back(tokens[static_cast<size_t>(p)]);
  step.logits = {30, 39};
  decode::StepPlan with_sparse = step;
  for (int32_t p = 3; p < 9; ++p) {
    with_sparse.sparse.rows.push_back(p);
    with_sparse.sparse.inputs.push_back(tokens[static_cast<size_t>(p)]);
  }
  with_sparse.landing = {.when = decode::Landing::When::waited, .stored = with_sparse.sparse.rows};
  with_sparse.sparse.keys = step.keys;
  with_sparse.sparse.trials = {{.rows = {35}, .inputs = {7}, .unconditional = {}, .logits = 35}};
  std::vector<decode::StepResult> plain, sparse;
  for (const auto* plan : {&full, &step, &step}) plain.push_back(run(*plan, bare));
  for (const auto* plan : {&full, &with_sparse, &step}) sparse.push_back(run(*plan, busy));
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(plain[1].predictions[i].logit, sparse[1].predictions[i].logit);
  EXPECT_EQ(sparse[1].sparse.size(), 1u);
  EXPECT_NE(plain[2].predictions[0].logit, sparse[2].predictions[0].logit) << "refreshed rows are seen now";
}

// Over one block a sliding one is that block; otherwise a refresh in every step is no cache, and threads change nothing.
TEST_F(Invariance, ASlidingBlockOverAllIsThatBlock) {
  const auto one = open_session(model_, 1), three = open_session(model_, 3);
  decode::DecodeOptions options = threshold();
  options.gen_length = options.block_length = 64;
  const Generation fixed = run(*one, 0, options);
  options.slide = true;
  const Generation slid = run(*one, 0, options);
  EXPECT_EQ(fixed.stats.canvas_hash, slid.stats.canvas_hash);
  EXPECT_EQ(fixed.stats.decode, slid.stats.decode);
  options.block_length = 16;
  const Generation plain = run(*one, 0, options);
  EXPECT_NE(plain.stats.decode, slid.stats.decode);
  for (const decode::KvChoice kv : {decode::KvChoice::dual, decode::KvChoice::frozen}) {
    options.kv = kv, options.refresh_after = 1;
    EXPECT_EQ(run(*three, 0, options).stats.canvas_hash, plain.stats.canvas_hash);
  }
  options.refresh_after = 0;
  EXPECT_LT(run(*three, 0, options).stats.decode.rows, plain.stats.decode.rows);
}

// labels: long
TEST_F(Invariance, RefreshEveryStepEqualsNoCacheBitForBit) {
  const auto session = open_session(model_);
  for (const decode::KvChoice kv :
       {decode::KvChoice::prefix, decode::KvChoice::dual, decode::KvChoice::block, decode::KvChoice::frozen}) {
    for (size_t i = 0; i < items_.size(); ++i) {
      decode::DecodeOptions options = threshold();
      std::vector<decode::Prediction> seen[2];
      for (int cached = 0; cached < 2; ++cached) {
        options.kv = cached ? kv : decode::KvChoice::none;
        options.refresh_after = cached;
        const auto result = session->generate(prompt(i), options, [&](const decode::StepEvent& event) {
          seen[cached].insert(seen[cached].end(), event.predictions.begin(), event.predictions.end());
          return true;
        });
        ASSERT_TRUE(result) << result.error().message;
      }
      ASSERT_EQ(seen[0].size(), seen[1].size());
      for (size_t p = 0; p < seen[0].size(); ++p) {
        EXPECT_EQ(seen[0][p].token, seen[1][p].token);
        EXPECT_EQ(seen[0][p].probability, seen[1][p].probability);  // bits, not a tolerance
      }
    }
  }
}

// The caches approximate: a doubtful answer may change (what that costs is measured by `llada eval`), a
// certain one may not.
// labels: long
TEST_F(Invariance, CachedPoliciesComputeFewerRowsAndKeepACertainAnswer) {
  const auto session = open_session(model_);
  const size_t doubtful = items_.size() - 2, certain = items_.size() - 1;
  for (const decode::KvChoice kv :
       {decode::KvChoice::prefix, decode::KvChoice::dual, decode::KvChoice::block, decode::KvChoice::frozen}) {
    decode::DecodeOptions options = threshold(), cached = threshold();
    cached.kv = kv;
    decode::DecodeOptions steps, cached_steps;  // as many forwards whatever the model thinks
    steps.gen_length = cached_steps.gen_length = 64;
    steps.steps = cached_steps.steps = 16;
    steps.early_stop = cached_steps.early_stop = decode::EarlyStop::none;
    cached_steps.kv = kv;
    EXPECT_LT(run(*session, doubtful, cached_steps).stats.decode.rows,
              run(*session, doubtful, steps).stats.decode.rows);
    options.early_stop = cached.early_stop = decode::EarlyStop::none;
    EXPECT_EQ(run(*session, certain, cached).text, run(*session, certain, options).text);
  }
}

TEST_F(Invariance, SessionsInParallelDoNotDisturbEachOther) {
  const auto alone = open_session(model_, 1);
  std::vector<std::vector<int32_t>> expected, got(items_.size());
  for (size_t i = 0; i < items_.size(); ++i) expected.push_back(run(*alone, i, threshold()).tokens);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < items_.size(); ++i)
      threads.emplace_back([&, i] {
        const auto session = open_session(model_, 1 + static_cast<int>(i % 2));
        got[i] = run(*session, i, threshold()).tokens;
      });
  }
  EXPECT_EQ(got, expected);
}

// labels: long
TEST_F(Invariance, GuidanceOfZeroStrengthMovesNothingAndStrongerMoves) {
  const auto session = open_session(model_);
  decode::DecodeOptions options = threshold();
  const Generation plain = run(*session, 0, options);
  options.cfg_scale = 1e-9;  // logits = u + 1.000000001 (c - u)
  const Generation weak = run(*session, 0, options);
  EXPECT_EQ(plain.tokens, weak.tokens);
  EXPECT_EQ(weak.stats.decode.rows, 2 * plain.stats.decode.rows);
  options.cfg_scale = 8;
  EXPECT_NE(plain.tokens, run(*session, 0, options).tokens);
}

TEST_F(Invariance, CancelLeavesAConsistentResult) {
  const auto session = open_session(model_);
  int steps = 0;
  const auto result =
      must(session->generate(prompt(0), threshold(), [&](const decode::StepEvent&) { return ++steps < 2; }));
  EXPECT_TRUE(result->stats.decode.cancelled);
  EXPECT_EQ(result->stats.decode.steps, 2);
}

TEST_F(Invariance, ImpossibleRequestsAreOneLine) {
  const auto session = open_session(model_);
  decode::DecodeOptions options = threshold();
  options.gen_length = 4096;
  const auto too_long = session->generate(prompt(0), options, {});
  ASSERT_FALSE(too_long);
  EXPECT_EQ(exit_status(too_long.error()), 2);
  EXPECT_NE(too_long.error().message.find("256"), std::string::npos) << too_long.error().message;
  const std::vector<int32_t> outside = {1, 2, 5000};
  EXPECT_THAT(why_not(session->generate(outside, threshold(), {})), testing::HasSubstr("5000"));
}

}  // namespace
}  // namespace llada
