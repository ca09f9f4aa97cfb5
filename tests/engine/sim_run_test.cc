// Whole generations on sim devices: the same answer as on the cpu device, whatever the window and the
// strategy, and whatever fails on the way.
// labels of this file: native
#include <unistd.h>

#include <filesystem>
#include <set>

#include "engine/convert.h"
#include "failing/failing_device.h"
#include "golden.h"
#include "late_passes.h"

namespace llada {
namespace {

class SimRun : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    path_ = (std::filesystem::temp_directory_path() / fmt::format("llada_sim_run_{}.gguf", ::getpid())).string();
    must(convert_model(
        {.path = LLADA_SOURCE_DIR "/models/tiny-llada", .out_path = path_, .type = "q8_0", .imatrix = {}}, {}));
    items_ = load_golden(LLADA_SOURCE_DIR "/models/tiny-llada/golden.json");
  }
  static void TearDownTestSuite() { std::filesystem::remove(path_); }

  struct Answer {
    std::vector<int32_t> tokens;
    GenerationStats stats;
    std::vector<std::string> warnings;
  };
  // less: tokens that are cut off the prompt, so that the model is in doubt.
  static Result<Answer> answer(const std::string& device, const decode::DecodeOptions& options, int64_t less = 0) {
    LLADA_TRY(const auto model,
              Model::load(path_, {.device = device, .plugin = &failing_devices(), .isa = "", .threads = 2}));
    Answer a;
    LLADA_TRY(const auto session,
              Session::create(model, {.threads = 0, .trace = nullptr, .warn = [&](const std::string& line) {
                                        a.warnings.push_back(line);
                                      }}));
    const GoldenItem& item = items_.back();
    LLADA_TRY(
        auto generation,
        session->generate(std::span(item.canvas).first(static_cast<size_t>(item.prompt_tokens - less)), options, {}));
    a.tokens = std::move(generation.tokens);
    a.stats = std::move(generation.stats);
    return a;
  }
  static decode::DecodeOptions strategy(decode::KvChoice kv) {
    decode::DecodeOptions options;
    options.gen_length = 32;
    options.block_length = 16;
    options.acceptance = decode::Acceptance::threshold;
    options.kv = kv;
    return options;
  }

  static std::string path_;
  static std::vector<GoldenItem> items_;
};
std::string SimRun::path_;
std::vector<GoldenItem> SimRun::items_;

TEST_F(SimRun, EveryWindowGivesTheCpusAnswer) {
  std::vector<decode::DecodeOptions> strategies;
  for (const auto kv :
       {decode::KvChoice::none, decode::KvChoice::prefix, decode::KvChoice::dual, decode::KvChoice::block})
    strategies.push_back(strategy(kv));
  strategies.push_back(strategy(decode::KvChoice::dual));
  strategies.back().temperature = 0.7;
  strategies.back().cfg_scale = 0.5;
  // Drafts of the blocks ahead, and revision whose checks run beside the step.
  strategies.push_back(strategy(decode::KvChoice::dual));
  strategies.back().mbsd = true;
  strategies.back().revision = decode::Revision::dual_path;
  strategies.back().revise_lateness = 0;
  strategies.back().threshold = 0.7;
  const std::vector<int> windows = quick() ? std::vector{10, 50} : std::vector{10, 20, 30, 45, 60, 75, 90, 100};
  for (size_t s = 0; s < strategies.size(); ++s) {
    const auto expected = must(answer("cpu", strategies[s]));
    EXPECT_FALSE(expected->stats.emulated);
    for (const int window : windows) {
      const auto got = answer(fmt::format("sim:v79-8elite,window={}%,fallback=none", window), strategies[s]);
      ASSERT_TRUE(got) << window << ": " << got.error().message;
      EXPECT_EQ(got->tokens, expected->tokens) << "strategy " << s << ", window " << window;
      EXPECT_EQ(got->stats.canvas_hash, expected->stats.canvas_hash);
      ASSERT_TRUE(got->stats.emulated);
      EXPECT_GT(got->stats.emulated->seconds, 0);
      EXPECT_GT(got->stats.emulated->npu_s, 0);
    }
  }
}

// Passes beside the steps: with a fixed lateness the answer is the same whether the pass runs before the step, in
// emulated time, or on another thread for however long.
TEST_F(SimRun, AFixedLatenessGivesOneAnswerOnEveryDevice) {
  std::set<std::vector<int32_t>> answers;
  int64_t passes = 0;
  for (const int64_t lateness : {0, 1, 3})
    for (const bool sampled : {false, true}) {
      decode::DecodeOptions options = strategy(decode::KvChoice::dual);
      check_apart(options, lateness);
      options.block_length = 4, options.revise_rows = 2;
      constexpr int64_t kLess = 8;
      if (sampled) options.temperature = 2;
      const auto expected = must(answer("cpu", options, kLess));
      passes += expected->stats.decode.sparse_forwards;
      answers.insert(expected->tokens);
      std::vector<std::string> devices = {"sim:v79-8elite,window=50%,fallback=none"};
      for (int seed = 0; seed < (quick() ? 1 : 20); ++seed) devices.push_back(fmt::format("cpu,late=6:{}", seed));
      for (const std::string& device : devices) {
        const auto got = answer(device, options, kLess);
        ASSERT_TRUE(got) << device << ": " << got.error().message;
        EXPECT_EQ(got->tokens, expected->tokens) << device << ", lateness " << lateness;
        EXPECT_EQ(got->stats.decode, expected->stats.decode) << device << ", lateness " << lateness;
      }
    }
  EXPECT_GT(passes, 20);
  EXPECT_GT(answers.size(), 2u) << "lateness decides something";
}

// As late as they are there: where there is no other unit, that is at once; elsewhere the run ends, whatever comes
// when.
TEST_F(SimRun, ReadyResultsNeedNoWaiting) {
  decode::DecodeOptions options = strategy(decode::KvChoice::dual);
  options.revision = decode::Revision::dual_path, options.revise_lateness = 0;
  options.threshold = 0.5, options.stable_threshold = 1;
  const auto at_once = answer("cpu", options);
  options.revise_lateness = decode::kReady;
  const auto ready = answer("cpu", options);
  ASSERT_TRUE(at_once && ready);
  EXPECT_EQ(at_once->tokens, ready->tokens);
  EXPECT_EQ(at_once->stats.decode, ready->stats.decode);
  for (int seed = 0; seed < (quick() ? 2 : 20); ++seed) {
    const auto got = must(answer(fmt::format("cpu,late=40:{}", seed), options));
    EXPECT_EQ(got->tokens.size(), 32u);
    EXPECT_LE(got->stats.decode.sparse_forwards, at_once->stats.decode.sparse_forwards);
  }
}

// The same by an emulated clock, on which a pass takes a fixed number of steps: results that are used when they are
// there are those of that lateness, and no step waits but the last, which computes nothing; those that are wanted at
// once are waited for.
TEST_F(SimRun, ASlowProcessorDelaysNoStep) {
  decode::DecodeOptions options = strategy(decode::KvChoice::dual);
  for (const int steps : {1, 2, 10}) {
    check_apart(options, steps - 1);
    options.block_length = 4;
    const auto late = answer("cpu", options);
    options.revise_lateness = decode::kReady;
    const auto ready = answer(fmt::format("cpu,slow-host={}", steps), options);
    options.revise_lateness = 0;
    const auto waited = answer(fmt::format("cpu,slow-host={}", steps), options);
    ASSERT_TRUE(late && ready && waited);
    EXPECT_EQ(ready->tokens, late->tokens) << steps;
    EXPECT_EQ(ready->stats.decode, late->stats.decode) << steps;
    const auto& decode = ready->stats.decode;
    ASSERT_GT(decode.sparse_forwards, 0) << steps;
    const double computed = static_cast<double>(decode.nfe - decode.sparse_forwards);
    EXPECT_GE(ready->stats.emulated->seconds, computed) << steps;
    EXPECT_LE(ready->stats.emulated->seconds, computed + steps) << "what is left of the last pass";
    const EmulatedStats& w = *waited->stats.emulated;
    EXPECT_EQ(w.seconds, w.npu_s + w.cpu_s - static_cast<double>(waited->stats.decode.sparse_forwards)) << steps;
  }
}

// By the clock of the machine: while one pass takes its second, step after step begins and ends.
TEST_F(SimRun, NoStepWaitsForASlowPass) {
  decode::DecodeOptions options = strategy(decode::KvChoice::dual);
  check_apart(options, decode::kReady);
  options.block_length = 4;
  const auto model =
      must(Model::load(path_, {.device = "cpu,late=1000:1", .plugin = &failing_devices(), .threads = 2}));
  Trace trace;
  auto session = must(Session::create(*model, {.threads = 0, .trace = &trace, .warn = {}}));
  const GoldenItem& item = items_.back();
  ASSERT_TRUE((*session)->generate(std::span(item.canvas).first(static_cast<size_t>(item.prompt_tokens)), options, {}));
  session->reset();  // which waits for the last pass
  auto spans = spans_by_lane(trace);
  ASSERT_FALSE(spans["decode"].empty());
  ASSERT_FALSE(spans["cpu beside"].empty());
  int64_t most = 0;
  for (const auto& [begin, end] : spans["cpu beside"])
    most = std::max(most, static_cast<int64_t>(std::ranges::count_if(spans["decode"], [&](const auto& step) {
                      return begin < step.first && step.second < end;
                    })));
  EXPECT_GE(most, 3);
}

TEST_F(SimRun, FailuresAreRetriedOnTheCpuWithTheSameAnswer) {
  const auto options = strategy(decode::KvChoice::prefix);
  const auto expected = must(answer("cpu", options));
  for (const char* device :
       {"sim:v79-8elite,window=50%,fail=allocate", "sim:v79-8elite,window=50%,fail=map:2",
        "sim:v79-8elite,window=50%,fail=map:7", "sim:v79-8elite,window=50%,fail=submit:90",
        "sim:v81-8elite-gen5,fail=gone:120", "cpu,fallback=cpu,fail=gone:97", "cpu,fallback=cpu,fail=submit:0"}) {
    const auto got = answer(device, options);
    ASSERT_TRUE(got) << device << ": " << got.error().message;
    EXPECT_EQ(got->tokens, expected->tokens) << device;
    EXPECT_EQ(got->stats.canvas_hash, expected->stats.canvas_hash) << device;
    EXPECT_EQ(got->warnings.size(), 1u) << device;
  }
  const auto none = answer("sim:v79-8elite,window=50%,fail=gone:100,fallback=none", options);
  ASSERT_FALSE(none);
  EXPECT_EQ(exit_status(none.error()), 1);
}

// labels: -threads
TEST_F(SimRun, DeviceTextsAreReadStrictly) {
  const std::pair<const char*, const char*> cases[] = {
      {"gpu", "device 'gpu' is not available here; this build has: cpu, sim:PROFILE, hexagon"},
      {"sim:", "profile: found ''"},
      {"sim:v99", "profile: found 'v99'"},
      {"cpu,window=40%", "device 'cpu': 'window': only for sim and hexagon"},
      {"sim:v79-8elite,window", "window: found '', needed such as 40%"},
      {"sim:v79-8elite,window=0%", "window: found '0%', needed such as 40%, 2.5GiB or unlimited"},
      {"sim:v79-8elite,window=1e999GiB", "window: found '1e999GiB'"},
      {"sim:v79-8elite,window=0.2GiB", "window: found 0.2 GiB, needed more than the reserve of 0.3 GiB"},
      {"sim:v79-8elite,map=slow", "map: found 'slow'"},
      {"sim:v79-8elite,memory=mru", "memory policy: found 'mru'"},
      {"sim:v79-8elite,grain=page", "grain: found 'page'"},
      {"sim:v79-8elite,head=gpu", "head: found 'gpu'"},
      {"sim:v79-8elite,head=npu,head=cpu", "head is given twice"},
      {"sim:v79-8elite,colour=red", "'colour': needed one of"},
      {"cpu,fail=often", "fail: found 'often'"},
      {"cpu,fallback=npu", "fallback: found 'npu'"},
      {"hexagon7", "device 'hexagon7' is not available here"},
      {"hexagon:window=unlimited", "device 'hexagon': window: found 'unlimited', needed such as 40%, 2.5GiB"},
      {"hexagon:sessions=9", "sessions: found '9', needed 1 to 8"},
      {"hexagon:sessions=1.5", "sessions: found '1.5'"},
      {"hexagon:space=31MiB", "space: found '31MiB', needed such as 64MiB"},
      {"hexagon:space=4GiB", "space: found '4GiB'"},
      {"hexagon:deadline=0", "deadline: found '0'"},
      {"hexagon:map=slow", "'map': needed one of window, sessions"},
      {"hexagon:library=", "library: found ''"},
  };
  for (const auto& [device, says] : cases) {
    const auto got = answer(device, strategy(decode::KvChoice::none));
    ASSERT_FALSE(got) << device;
    EXPECT_EQ(exit_status(got.error()), 2) << device;
    EXPECT_NE(got.error().message.find(says), std::string::npos) << got.error().message;
  }
}

// The engine alone knows neither the simulated devices nor the ways to fail.
// labels: -threads
TEST_F(SimRun, WhatThePluginBringsIsRefusedWithoutIt) {
  for (const auto& [device, says] :
       {std::pair{"sim:v79-8elite", "' is not available here; this build has: cpu, hexagon, cuda"},
        {"cuda:fail=gone:1", "'fail': needed one of budget, products, fallback"},
        {"hexagon:memory=lru", "memory policy: found 'lru', needed one of plan, copy, sessions"}}) {
    const auto got = Model::load(path_, {.device = device, .isa = "", .threads = 1});
    ASSERT_FALSE(got) << device;
    EXPECT_EQ(exit_status(got.error()), 2) << device;
    EXPECT_TRUE(got.error().message.ends_with(says)) << got.error().message;
  }
}

}  // namespace
}  // namespace llada
