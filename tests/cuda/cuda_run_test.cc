// Emulated: whole answers of the shipped models on --device cuda, and of the mixture with its experts shared out
// between the GPU and the host.
#include "engine/golden.h"
#include "engine/late_passes.h"
#include "engine/shared_forwards.h"
#include "failing/failing_device.h"

namespace llada {
namespace {

std::string folder(const char* model) { return std::string(LLADA_SOURCE_DIR "/models/") + model; }

struct Answer {
  std::vector<int32_t> tokens;
  GenerationStats stats;
};

Result<Answer> answer(const char* model, const std::string& device, const ExpertRequest& experts = {},
                      const std::function<void(decode::DecodeOptions&)>& change = {}) {
  static std::map<std::string, std::vector<GoldenItem>> golden;
  auto& items = golden[model];
  if (items.empty()) items = load_golden(folder(model) + "/golden.json");
  LLADA_TRY(const auto loaded,
            Model::load(folder(model),
                        {.device = device, .plugin = &failing_devices(), .isa = "", .threads = 2, .experts = experts}));
  LLADA_TRY(const auto session, Session::create(loaded, {.threads = 0}));
  decode::DecodeOptions options;
  options.gen_length = 4;
  options.block_length = 4;
  options.acceptance = decode::Acceptance::threshold;
  options.threshold = 0.7;
  options.kv = decode::KvChoice::dual;
  if (change) change(options);
  const GoldenItem& item = items.back();
  LLADA_TRY(auto generation,
            session->generate(std::span(item.canvas).first(static_cast<size_t>(item.prompt_tokens)), options, {}));
  return Answer{std::move(generation.tokens), std::move(generation.stats)};
}

TEST(CudaRun, ShortAnswersAreTheCpusAnswers) {
  for (const char* model : {"tiny-llada", "tiny-llada-moe"}) {
    const auto expected = must(answer(model, "cpu"));
    for (const char* products : {"float", "tensor"}) {
      const auto got = must(answer(model, fmt::format("cuda:budget=256MiB,fallback=none,products={}", products)));
      EXPECT_EQ(got->tokens, expected->tokens) << model << " " << products;
      EXPECT_EQ(got->stats.canvas_hash, expected->stats.canvas_hash) << model << " " << products;
    }
  }
}

// A golden canvas's logits, as tests/engine asks of the cpu: an independent forward, in full.
TEST(CudaRun, GoldenLogits) {
  if (quick()) GTEST_SKIP() << "not run: LLADA_TEST_QUICK";
  const auto items = load_golden(folder("tiny-llada-moe") + "/golden.json");
  const GoldenItem& item = items.back();
  const auto model = must(Model::load(folder("tiny-llada-moe"), {.device = "cuda", .isa = "", .threads = 2}));
  const auto session = open_session(*model);
  std::vector<int32_t> positions;
  for (const auto& [position, row] : item.logits) positions.push_back(position);
  const auto logits = must(session->logits(item.canvas, positions));
  float worst = 0;
  size_t at = 0;
  for (const auto& [position, row] : item.logits)
    for (const float expected : row) worst = std::max(worst, std::fabs((*logits)[at++] - expected));
  EXPECT_LT(worst, 2e-3f);
}

// Whoever computes an expert, and however it came there.
TEST(CudaRun, NoSettingOfTheExpertsChangesTheAnswer) {
  const auto expected = must(answer("tiny-llada-moe", "cpu"));
  const std::vector<ExpertRequest> settings = {
      {.share = 0.25, .plan = "static"},
      {.share = 0.25, .plan = "on-demand"},
      {.share = 0.25, .plan = "hybrid"},
      {.share = 0.5, .plan = "hybrid"},
  };
  for (size_t i = 0; i < settings.size(); i += quick() ? 2 : 1) {
    const ExpertRequest& s = settings[i];
    const auto got =
        answer("tiny-llada-moe", fmt::format("cuda:fallback=none,products={}", i % 3 == 2 ? "tensor" : "float"), s);
    ASSERT_TRUE(got) << s.plan << ": " << got.error().message;
    EXPECT_EQ(got->tokens, expected->tokens) << s.plan;
    ASSERT_TRUE(got->stats.experts) << s.plan;
    const MoeStats& m = *got->stats.experts;
    EXPECT_GT(m.used, 0);
    if (s.plan == "static") {
      EXPECT_EQ(m.on_host, m.used - m.hits);
    }
    if (s.plan == "on-demand") {
      EXPECT_EQ(m.on_host, 0);
      EXPECT_GT(m.moved, 0);
    }
  }
}

// Passes beside the steps are the host's. With a fixed lateness the answer is the cpu device's; of results that are
// used when they are there too, where an emulated clock says when that is.
TEST(CudaRun, AFixedLatenessGivesTheCpusAnswer) {
  int64_t revised = 0;
  for (const int64_t lateness : {0, 2}) {
    const auto options = [&](int64_t value) {
      return [value](decode::DecodeOptions& o) {
        check_apart(o, value);
        o.gen_length = 8, o.block_length = 2;
      };
    };
    const auto expected = answer("tiny-llada", "cpu", {}, options(lateness)),
               got = answer("tiny-llada", "cuda:fallback=none", {}, options(lateness)),
               ready = answer("tiny-llada", fmt::format("cuda:fallback=none,slow-host={}", lateness + 1), {},
                              options(decode::kReady));
    for (const auto* answer : {&expected, &got, &ready}) {
      ASSERT_TRUE(*answer) << answer->error().message;
      EXPECT_EQ((*answer)->tokens, expected->tokens) << "lateness " << lateness;
      EXPECT_EQ((*answer)->stats.decode, expected->stats.decode) << "lateness " << lateness;
    }
    const decode::RunStats& stats = expected->stats.decode;
    EXPECT_GT(stats.sparse_forwards, 0);
    EXPECT_EQ(ready->stats.emulated->seconds, static_cast<double>(stats.nfe - stats.sparse_forwards));
    revised += stats.counters.revisions_made;
  }
  EXPECT_GT(revised, 0);
}

// The host computes all experts of its passes, whichever the GPU holds.
TEST(CudaRun, PassesBesideAMixture) {
  const auto options = [](decode::DecodeOptions& o) {
    check_apart(o, 1);
    o.gen_length = 8, o.block_length = 2;
  };
  const auto expected = answer("tiny-llada-moe", "cpu", {}, options),
             got = answer("tiny-llada-moe", "cuda:fallback=none", {.share = 0.25, .plan = "static"}, options);
  ASSERT_TRUE(expected && got) << (got ? "" : got.error().message);
  EXPECT_GT(got->stats.decode.sparse_forwards, 0);
  EXPECT_EQ(got->tokens, expected->tokens);
}

// labels: long
TEST(CudaRun, SharedForwardsGiveTheAnswersThatEachHasAlone) {
  for (const char* name : {"tiny-llada", "tiny-llada-moe"}) {
    const auto model = must(Model::load(folder(name), {.device = "cuda:fallback=none", .isa = "", .threads = 2}));
    auto text = load_golden(folder(name) + "/golden.json").back().canvas;
    text.resize(8);
    const auto wanted = eight_requests(text, 4);
    const auto alone = run_alone(*model, wanted);
    const Together together = run_together(*model, wanted, {.row_budget = 40});
    expect_same(wanted, together.ran, alone);
    EXPECT_LT(together.stats.forwards, together.stats.parts);
    if (quick()) break;
  }
}

TEST(CudaRun, TheCpuTakesOverFromAFailingGpu) {
  const auto expected = answer("tiny-llada-moe", "cpu"), got = answer("tiny-llada-moe", "cuda:fail=gone:150");
  ASSERT_TRUE(expected && got);
  EXPECT_EQ(got->tokens, expected->tokens);
}

TEST(CudaRun, WhatCannotBeIsRefusedInOneLine) {
  const std::tuple<const char*, int, const char*> cases[] = {
      {"cuda:budget=1MiB", 1, "cuda: needs "},
      {"cuda:budget=0MiB", 2, "budget: found '0MiB', needed such as 512MiB or 4GiB"},
      {"cuda:budget=4", 2, "budget: found '4'"},
      {"cuda:window=40%", 2, "'window': needed one of budget, products, fallback, fail"},
      {"cuda:products=half", 2, "products: found 'half', needed float or tensor"},
      {"cpu,products=float", 2, "'products': only for cuda"},
      {"cudax", 2, "device 'cudax' is not available here"},
  };
  for (const auto& [device, status, says] : cases) {
    const auto got =
        Model::load(folder("tiny-llada"), {.device = device, .plugin = &failing_devices(), .isa = "", .threads = 1});
    ASSERT_FALSE(got) << device;
    EXPECT_EQ(exit_status(got.error()), status) << got.error().message;
    EXPECT_NE(got.error().message.find(says), std::string::npos) << got.error().message;
    EXPECT_EQ(got.error().message.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace llada
