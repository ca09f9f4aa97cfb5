// Whole generations of the shipped mixture with its experts shared out: the same tokens whatever the plan, the
// cache and the prefetch, and the books of what was moved.
// labels of this file: threads native
#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "base/random.h"
#include "engine/golden.h"
#include "eval/routing_recorder.h"
#include "failing/failing_device.h"
#include "study/moe_routing.h"

namespace llada {
namespace {

const std::string kModel = LLADA_SOURCE_DIR "/models/tiny-llada-moe";

struct Answer {
  std::vector<int32_t> tokens;
  GenerationStats stats;
};

decode::DecodeOptions short_answer(decode::KvChoice kv) {
  decode::DecodeOptions options;
  options.gen_length = 8;
  options.block_length = 4;
  options.acceptance = decode::Acceptance::threshold;
  options.threshold = 0.7;
  options.kv = kv;
  return options;
}

Result<Answer> answer(const std::string& device, const ExpertRequest& experts, decode::KvChoice kv,
                      std::function<Status(const RoutedLayer&)> routing = {}) {
  static const std::vector<GoldenItem> items = load_golden(kModel + "/golden.json");
  LLADA_TRY(const auto model,
            Model::load(kModel,
                        {.device = device, .plugin = &failing_devices(), .isa = "", .threads = 2, .experts = experts}));
  LLADA_TRY(const auto session,
            Session::create(model, {.threads = 0, .trace = nullptr, .routing = std::move(routing)}));
  const GoldenItem& item = items.front();
  LLADA_TRY(auto generation, session->generate(std::span(item.canvas).first(static_cast<size_t>(item.prompt_tokens)),
                                               short_answer(kv), {}));
  return Answer{std::move(generation.tokens), std::move(generation.stats)};
}

TEST(MoeRun, NoSettingChangesTheAnswer) {
  const auto expected = must(answer("cpu", {}, decode::KvChoice::dual));
  EXPECT_FALSE(expected->stats.experts);
  std::vector<ExpertRequest> settings;
  for (const double share : {0.25, 0.5, 0.75})
    for (const char* plan : {"static", "all-cpu", "hybrid", "on-demand"}) settings.push_back({share, plan});
  const char* devices[] = {"sim:a6000-pcie4,fallback=none", "sim:rtx4060-pcie4,fallback=none",
                           "sim:v79-8elite,window=60%,fallback=none"};
  for (size_t i = 0; i < settings.size(); i += quick() ? 5 : 1) {
    const ExpertRequest& s = settings[i];
    const auto got = answer(devices[i % 3], s, decode::KvChoice::dual);
    const std::string what = fmt::format("{} {} {}", devices[i % 3], s.plan, s.share);
    ASSERT_TRUE(got) << what << ": " << got.error().message;
    EXPECT_EQ(got->tokens, expected->tokens) << what;
    EXPECT_EQ(got->stats.canvas_hash, expected->stats.canvas_hash) << what;
    ASSERT_TRUE(got->stats.experts && got->stats.emulated) << what;
    const MoeStats& m = *got->stats.experts;
    EXPECT_GT(m.used, 0);
    EXPECT_LE(m.hits, m.used) << what;
    EXPECT_GT(got->stats.emulated->seconds, 0);
    if (s.plan == "all-cpu") {
      EXPECT_EQ(m.on_host, m.used);
      EXPECT_EQ(got->stats.emulated->moved_expert_bytes, 0);
    }
    if (s.plan == "on-demand") {
      EXPECT_EQ(m.on_host, 0) << what;
    }
    if (s.plan == "static") {
      EXPECT_EQ(m.on_host, m.used - m.hits);
    }
    if (s.plan == "static") {
      EXPECT_EQ(m.guessed, 0) << what;
    }
  }
}

TEST(MoeRun, AFailingDeviceIsReplacedWithTheSameAnswer) {
  const auto expected = answer("cpu", {}, decode::KvChoice::none);
  const auto got = answer("sim:a6000-pcie4,fail=gone:60", {.share = 0.25}, decode::KvChoice::none);
  ASSERT_TRUE(expected && got);
  EXPECT_EQ(got->tokens, expected->tokens);
  EXPECT_FALSE(got->stats.emulated);
}

TEST(MoeRun, ImpossibleRequestsAreRefusedInOneLine) {
  const std::tuple<const char*, ExpertRequest, const char*> cases[] = {
      {"cpu", {.share = 0.25}, "experts_on_device: device 'cpu' has no accelerator"},
      {"sim:v81-8elite-gen5", {.share = 0.25}, "profile v81-8elite-gen5 has no numbers for experts"},
      {"sim:a6000-pcie4", {.plan = "static"}, "moe_plan: found 'static' without a share"},
      {"sim:a6000-pcie4", {.share = 0.5, .plan = "best"}, "moe plan: found 'best'"},
      {"sim:a6000-pcie4", {.share = 1.5}, "experts_on_device: found 150 %"},
  };
  for (const auto& [device, request, says] : cases) {
    const auto got = Model::load(
        "no-such-model", {.device = device, .plugin = &failing_devices(), .isa = "", .threads = 1, .experts = request});
    ASSERT_FALSE(got) << says;
    EXPECT_EQ(exit_status(got.error()), 2);
    EXPECT_NE(got.error().message.find(says), std::string::npos) << got.error().message;
  }
  EXPECT_THAT(why_not(Model::load(LLADA_SOURCE_DIR "/models/tiny-llada", {.device = "sim:a6000-pcie4",
                                                                          .plugin = &failing_devices(),
                                                                          .isa = "",
                                                                          .threads = 1,
                                                                          .experts = {.share = 0.25}})),
              testing::HasSubstr("a dense model, it has no experts"));
}

TEST(MoeRun, RecordedRoutingIsWhatTheRoutersDecided) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("llada_routing_{}.jsonl", ::getpid())).string();
  const auto file = must(ModelFile::open(kModel));
  auto recorder = must(RoutingRecorder::create(path, *file));
  const auto got =
      must(answer("cpu", {}, decode::KvChoice::dual, [&](const RoutedLayer& r) { return (*recorder)->record(r); }));
  ASSERT_TRUE((*recorder)->commit());
  const auto trace = read_routing(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->layers, 6);
  EXPECT_EQ(trace->experts, 16);
  EXPECT_EQ(static_cast<int64_t>(trace->steps.size()), got->stats.decode.nfe);
  int64_t rows = 0;
  for (const RoutingStep& step : trace->steps) {
    rows += step.rows;
    for (size_t l = 0; l + 1 < step.layers.size(); ++l) {
      int32_t chosen = 0;
      double gates = 0;
      for (size_t e = 0; e < 16; ++e) chosen += step.layers[l].rows[e], gates += step.layers[l].score[e];
      EXPECT_EQ(chosen, 4 * step.rows);
      EXPECT_NEAR(gates, step.rows, 1e-3 * step.rows) << "chosen gates sum to one in this model";
    }
  }
  EXPECT_EQ(rows, got->stats.decode.rows);
  EXPECT_TRUE(trace->steps.front().block_start);
}

// What the fuzz target asks of an accepted recording, on a few mutations.
TEST(MoeRun, MutatedRoutingIsRefusedOrWhole) {
  std::string good = "{\"format\":\"llada-routing\",\"version\":1,\"layers\":2,\"experts\":4,\"used\":2}\n";
  for (const char* at : {"0,\"layer\":0", "0,\"layer\":1", "2,\"layer\":0", "2,\"layer\":1"})
    good +=
        fmt::format("{{\"step\":{},\"positions\":[3,7],\"experts\":[[1,2],[0]],\"gates\":[[0.5,0.5],[1e-3]]}}\n", at);
  int accepted = 0;
  for (uint64_t trial = 0; trial < 400; ++trial) {
    std::string text = good;
    const auto at = static_cast<size_t>(uniform(trial, 1, 0, 0) * static_cast<double>(text.size()));
    switch (static_cast<int>(uniform(trial, 2, 0, 0) * 3)) {
      case 0:
        text[at] = "0123456789-[]{},:\"e\n"[static_cast<size_t>(uniform(trial, 3, 0, 0) * 20)];
        break;
      case 1:
        text.erase(at, 1 + static_cast<size_t>(uniform(trial, 3, 0, 0) * 40));
        break;
      default:
        text.insert(at, text.substr(at, 60));
    }
    const auto trace = parse_routing(text, "f");
    if (!trace) {
      EXPECT_EQ(exit_status(trace.error()), 2);
      EXPECT_EQ(trace.error().message.find('\n'), std::string::npos);
      continue;
    }
    ++accepted;
    for (const RoutingStep& step : trace->steps) {
      EXPECT_EQ(step.layers.size(), static_cast<size_t>(trace->layers));
      for (const LayerRouting& layer : step.layers) {
        EXPECT_EQ(layer.rows.size(), static_cast<size_t>(trace->experts));
        for (const float score : layer.score) EXPECT_TRUE(std::isfinite(score));
      }
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(MoeRun, HostileRoutingIsRefusedByLine) {
  const std::string head = "{\"format\":\"llada-routing\",\"version\":1,\"layers\":1,\"experts\":4,\"used\":2}\n";
  const std::string step = R"({"step":0,"layer":0,"positions":[3],"experts":[[1,2]],"gates":[[0.5,0.5]]})";
  ASSERT_TRUE(parse_routing(head + step + "\n", "f"));
  EXPECT_EQ(why_not(parse_routing(head + step + "\n", "f", 3)),
            "f:2: needed an end: the experts of all lines are over 3");
  const std::pair<std::string, const char*> cases[] = {
      {"", "f: needed a header and at least one step"},
      {"[]\n", "f:1: the JSON is not an object"},
      {"{\"format\":\"other\"}\n", "f:1: format: found \"other\", needed llada-routing"},
      {"{\"format\":\"llada-routing\",\"version\":1,\"layers\":0,\"experts\":4,\"used\":2}\n",
       "layers: found 0, needed a whole number"},
      {"{\"format\":\"llada-routing\",\"version\":1,\"layers\":1,\"experts\":4,\"used\":9}\n",
       "used: found 9, needed a whole number"},
      {head, "needed a header and at least one step"},
      {head + R"({"step":0,"layer":1,"positions":[3],"experts":[[1]],"gates":[[1]]})",
       "layer: found 1, needed a whole number"},
      {head + R"({"step":0,"layer":0,"positions":[3],"experts":[[4]],"gates":[[1]]})", "experts from 0 to 3"},
      {head + R"({"step":0,"layer":0,"positions":[3],"experts":[[1,2,3]],"gates":[[1,1,1]]})", "at most 2 experts"},
      {head + R"({"step":0,"layer":0,"positions":[3,4],"experts":[[1]],"gates":[[1]]})", "an entry per row"},
      {head + step + "\n" + step, "f:3: found layer 0 of step 0, needed layer 0 of a step"},
      {head + R"({"step":0,"layer":0,"positions":[3],"experts":[[1,1]],"gates":[[0.5,0.5]]})",
       "other experts than 1 twice"},
      {head + R"({"step":0,"layer":0,"positions":[3],"experts":[[1]],"gates":[[1e300]]})", "gates up to 1e+06"},
  };
  for (const auto& [text, says] : cases) {
    const auto got = parse_routing(text, "f");
    ASSERT_FALSE(got) << text;
    EXPECT_EQ(exit_status(got.error()), 2);
    EXPECT_NE(got.error().message.find(says), std::string::npos) << got.error().message;
  }
}

}  // namespace
}  // namespace llada
