// The latency table: what lies between its points, and that a measurement has the shape it promises. No
// assertion depends on how fast the machine is.
// labels of this file: native
#include "engine/latency.h"

#include <gmock/gmock.h>

#include <chrono>
#include <future>

#include "engine/scheduler.h"
#include "failing/failing_device.h"
#include "golden.h"
#include "late_passes.h"
#include "study/devices.h"

namespace llada {
namespace {

// labels: long
TEST(Latency, LinesBetweenAndBeyondPoints) {
  const LatencyTable table{"d", 64, 32, {{8, 4}, {16, 4}, {32, 12}}};
  EXPECT_DOUBLE_EQ(table.ms(4), 2);  // through the origin
  EXPECT_DOUBLE_EQ(table.ms(8), 4);
  EXPECT_DOUBLE_EQ(table.ms(12), 4);
  EXPECT_DOUBLE_EQ(table.ms(24), 8);
  EXPECT_DOUBLE_EQ(table.ms(40), 16);
  const LatencyTable one{"d", 64, 32, {{8, 4}}};
  EXPECT_DOUBLE_EQ(one.ms(16), 8);
}

// Measures for seconds, under a sanitizer for a minute; other tests run the same code there.
// labels: long
TEST(Latency, IsMeasuredOncePerModel) {
  const auto model = load_model(LLADA_SOURCE_DIR "/models/tiny-llada", 1);
  const auto table = must(model->latency(1));
  EXPECT_EQ(table->points.front().rows, 1);
  EXPECT_EQ(table->points.back().rows, 128);
  for (size_t i = 0; i < table->points.size(); ++i) {
    EXPECT_GT(table->points[i].ms, 0);
    if (i > 0) {
      EXPECT_GT(table->points[i].rows, table->points[i - 1].rows);
    }
  }
  const auto again = must(model->latency(1));
  for (size_t i = 0; i < table->points.size(); ++i) EXPECT_EQ(again->points[i].ms, table->points[i].ms);
}

// A table that was measured beside other workers would tell of them.
// labels: long
TEST(Latency, IsMeasuredAlone) {
  const auto model = load_model(LLADA_SOURCE_DIR "/models/tiny-llada", 1);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(model->latency(1));
  const auto usual = std::chrono::steady_clock::now() - begin;
  const auto session = open_session(model);
  decode::DecodeOptions options;
  options.gen_length = options.block_length = 8;
  options.steps = 4;
  std::future<Result<LatencyTable>> measured;
  bool waited = false;
  const auto done = session->generate(std::vector<int32_t>{5, 6, 7}, options, [&](const decode::StepEvent&) {
    if (measured.valid()) return true;
    measured = std::async(std::launch::async, [&] { return model->latency(0); });
    waited = measured.wait_for(2 * usual) == std::future_status::timeout;
    return true;
  });
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(waited) << "it was measured during the run";
  EXPECT_TRUE(measured.get());
}

// Nor beside a pass that outlives the forward that began it.
// labels: long
TEST(Latency, APassUnderWayEndsBefore) {
  const auto model =
      must(Model::load(LLADA_SOURCE_DIR "/models/tiny-llada",
                       {.device = "cpu,late=200:1", .plugin = &failing_devices(), .isa = "", .threads = 1}));
  Trace trace;
  const auto scheduler = must(Scheduler::create(*model, {.trace = &trace}));
  const GoldenItem item = load_golden(LLADA_SOURCE_DIR "/models/tiny-llada/golden.json").back();
  Request request{.tokens = {item.canvas.begin(), item.canvas.begin() + item.prompt_tokens}};
  check_apart(request.options, decode::kReady);
  request.options.gen_length = 16, request.options.block_length = 4;
  bool under_way = false;
  const auto on_step = [&](const decode::StepEvent& event) {
    under_way = !event.plan.sparse.empty() && event.landed == nullptr;
    return true;
  };
  ASSERT_TRUE((*scheduler)->add(prepare(**model, request).value(), {on_step}, [](const Result<Generation>& got) {
    EXPECT_TRUE(got) << got.error().message;
  }));
  while (!under_way && !(*scheduler)->idle()) (*scheduler)->run_forward();
  ASSERT_TRUE(under_way);
  const double begin = trace.now_us();
  ASSERT_TRUE((*model)->latency(0));
  auto spans = spans_by_lane(trace);
  ASSERT_FALSE(spans["cpu beside"].empty());
  for (const auto& [from, to] : spans["cpu"]) EXPECT_TRUE(from < begin || from >= spans["cpu beside"].back().second);
}

// labels: long
TEST(Latency, BucketsAscendInRowsAndTime) {
  const LatencyTable table{"d", 64, 32, {{1, 3}, {2, 2}, {4, 2}, {8, 5}, {16, 4}, {32, 9}}};
  const auto buckets = table.buckets();
  ASSERT_EQ(buckets.size(), 3u);  // 4 rows cost no more than 1 or 2, 16 no more than 8
  EXPECT_EQ(buckets[0].rows, 4);
  EXPECT_EQ(buckets[1].rows, 16);
  EXPECT_EQ(buckets[2].rows, 32);
}

// An emulated device's table is modelled, so runs that take it repeat, and equal runs that are given it.
// labels: long
TEST(Latency, SpeculationTakesTheDevicesOwnTable) {
  auto model = must(Model::load(LLADA_SOURCE_DIR "/models/tiny-llada",
                                {.device = "sim:v79-8elite", .plugin = &study_devices(), .threads = 1}));
  const auto session = open_session(*model);
  decode::DecodeOptions options;
  options.gen_length = 64;
  options.steps = 16;
  options.mbsd = true;
  options.mbsd_trigger = 24;
  options.kv = decode::KvChoice::block;  // otherwise every row is computed anyway, and drafts cost nothing
  options.device_latency = true;
  const auto items = load_golden(LLADA_SOURCE_DIR "/models/tiny-llada/golden.json");
  const ChatMessage message{"user", items[0].prompt};  // its answer goes into the second block
  const auto prompt = must((*model)->chat_ids({&message, 1}));
  const auto first = must(session->generate(*prompt, options, {}));
  options.device_latency = false;
  const auto table = must((*model)->latency(0));
  options.latency_table = table->buckets();
  const auto second = must(session->generate(*prompt, options, {}));
  EXPECT_EQ(first->tokens, second->tokens);
  EXPECT_EQ(first->stats.decode.rows, second->stats.decode.rows);
  options.latency_table.clear();
  const auto fixed = must(session->generate(*prompt, options, {}));
  EXPECT_NE(fixed->stats.decode.rows, first->stats.decode.rows) << "the table must have made a difference";
}

// labels: long
TEST(Latency, RefusesACanvasTheModelCannotTake) {
  const auto model = load_model(LLADA_SOURCE_DIR "/models/tiny-llada", 1);
  EXPECT_THAT(why_not(measure_latency(*model, {.keys = 4096})), testing::HasSubstr("4096"));
}

}  // namespace
}  // namespace llada
