// What a request is counted with against what the allocator gave it, and requests that get no memory.
// labels of this file: native -threads
#include "engine/request_memory.h"

#include "base/random.h"
#include "devices/small_model.h"
#include "engine/score_jobs.h"
#include "geometry/model_files.h"
#include "golden.h"
#include "memory_meter.h"
#include "shared_forwards.h"

namespace llada {
namespace {

class RequestMemory : public testing::Test {
 protected:
  static SmallModel model_of(bool causal) {
    ModelConfig config = causal ? small_llada2() : small_config();
    config.vocab = 4000, config.context = 256, config.mask_id = 3999, config.eos_id = config.pad_id = 3998;
    return make_small_model(DType::F32, config);
  }
  static std::shared_ptr<const Model> open(const SmallModel& model) {
    return *must(Model::from_memory(in_memory(model), {}, {.device = "cpu", .threads = 1}, {}));
  }
  static std::vector<int32_t> prompt(int64_t count) {
    std::vector<int32_t> tokens(static_cast<size_t>(count));
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(17 + 31 * i % 3000);
    return tokens;
  }
  // Bytes at the highest while the request runs, its answer included.
  static int64_t measured(Scheduler& scheduler, const Ready& request) {
    std::optional<Result<Generation>> answer;
    const MemoryMeter meter;
    const auto id = scheduler.add(request, {}, [&](Result<Generation> g) { answer = std::move(g); });
    EXPECT_TRUE(id) << (id ? "" : id.error().message);
    while (!scheduler.idle()) scheduler.run_forward();
    EXPECT_TRUE(answer && *answer) << (answer && !*answer ? answer->error().message : "");
    return meter.peak();
  }
};

// A request of the model with random options that may be.
Request random_request(uint64_t seed, bool causal, const std::vector<int32_t>& tokens) {
  uint64_t n = 0;
  const auto random = [&](int64_t below) {
    return static_cast<int64_t>(mix64(seed * kRandomStep + ++n) % static_cast<uint64_t>(below));
  };
  for (;;) {
    Request r;
    r.tokens.assign(tokens.begin(), tokens.begin() + 1 + random(40));
    decode::DecodeOptions& o = r.options;
    o.block_length = causal ? 8 : 4 + random(28);
    o.gen_length = o.block_length * (1 + random(3));
    // Most masks at once: few steps show what a request holds.
    o.acceptance = decode::Acceptance::threshold;
    o.threshold = 0.0001 * static_cast<double>(1 + random(20));
    o.kv = std::array{decode::KvChoice::none, decode::KvChoice::dual, decode::KvChoice::block,
                      decode::KvChoice::frozen}[static_cast<size_t>(random(4))];
    if (random(3) == 0) o.temperature = 1, o.top_p = 0.9;
    if (random(4) == 0) o.cfg_scale = 1;
    if (random(3) == 0) r.alternatives = 1 + random(8);
    if (random(3) == 0) o.mbsd = true, o.mbsd_trigger = 1 + random(16);
    if (random(3) == 0) o.revision = decode::Revision::dual_path, o.revise_rows = 1 + random(12);
    if (random(6) == 0) o.revise_lateness = 0;
    if (random(4) == 0) o.auto_length = true, o.gen_length = 150 + random(60);
    if (random(5) == 0) o.tail = random(20);
    o.early_stop = random(2) == 0 || o.auto_length ? decode::EarlyStop::answer : decode::EarlyStop::none;
    if (decode::validate(o, false, causal ? 8 : 0)) return r;
  }
}

TEST_F(RequestMemory, IsCountedBeforeItIsTaken) {
  if (!MemoryMeter::works()) GTEST_SKIP() << "not run: a sanitizer's malloc() cannot be counted";
  double counted_all = 0, measured_all = 0;
  for (const bool causal : {false, true}) {
    const SmallModel small = model_of(causal);
    const auto model = open(small);
    auto scheduler = *Scheduler::create(model, {.row_budget = 4096});
    const auto tokens = prompt(64);
    // Its scratch memory, shared by all, is as large as it will be.
    Request widest{.tokens = tokens,
                   .options = {decode::LengthOptions{.gen_length = 180, .block_length = causal ? 8 : 32},
                               decode::SamplingOptions{.cfg_scale = 1}}};
    widest.options.acceptance = decode::Acceptance::threshold, widest.options.threshold = 1e-9;
    widest.alternatives = 1;
    measured(*scheduler, prepare(*model, widest).value());
    for (uint64_t seed = 0; seed < (quick() ? 3 : 6); ++seed) {
      const auto ready = prepare(*model, random_request(seed, causal, tokens));
      if (!ready) continue;
      const Ready& request = *ready;
      measured(*scheduler, request);  // programs of its shapes are kept by the executor
      const auto got = static_cast<double>(measured(*scheduler, request)), counted = request->bytes.computed;
      EXPECT_LE(got, counted) << "seed " << seed << ", causal " << causal << ", gen_length "
                              << request->request.options.gen_length;
      counted_all += counted, measured_all += got;
    }
  }
  EXPECT_LT(counted_all, 4 * measured_all) << "not far from what is taken";
}

// With classes of tokens that stand alone, states and rows as they come; no logits.
TEST_F(RequestMemory, OfFormsToo) {
  if (!MemoryMeter::works()) GTEST_SKIP() << "not run: a sanitizer's malloc() cannot be counted";
  const auto model = load_model(LLADA_SOURCE_DIR "/models/tiny-llada", 1);
  auto scheduler = *Scheduler::create(model, {.row_budget = 4096});
  Request request{.tokens = prompt(20), .options = {decode::LengthOptions{.gen_length = 96, .block_length = 96}}};
  for (int32_t& token : request.tokens) token %= 1000;
  request.options.acceptance = decode::Acceptance::threshold, request.options.threshold = 1e-9;
  const Ready plain = prepare(*model, request).value();
  measured(*scheduler, plain);  // its scratch memory
  request.options.json_schema =
      R"({"properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"enum": ["x", "yes", "no"]}}}})";
  const Ready formed = prepare(*model, request).value();
  ASSERT_NE(formed->form, nullptr);
  measured(*scheduler, formed);
  EXPECT_LE(static_cast<double>(measured(*scheduler, formed)), formed->bytes.computed);
  constexpr int64_t kStretchBytes = 32768 * 4;  // of logits, while a row is read on the CPU
  EXPECT_GE(formed->bytes.computed, plain->bytes.computed + 96 * kStretchBytes);
}

TEST_F(RequestMemory, OfScoresToo) {
  if (!MemoryMeter::works()) GTEST_SKIP() << "not run: a sanitizer's malloc() cannot be counted";
  for (const bool causal : {false, true}) {
    const SmallModel small = model_of(causal);
    const auto model = open(small);
    for (const int64_t rows : {64, 256}) {
      auto scheduler = *Scheduler::create(model, {.row_budget = rows});
      for (const int64_t top : {0, 5})
        for (const int64_t length : {7, 60}) {
          ScoreRequest request{.prompt = {5}, .continuations = {prompt(length)}};
          request.options.top = top;
          const auto run = [&] {
            std::optional<Result<ScoreResult>> answer;
            const MemoryMeter meter;
            EXPECT_TRUE(scheduler->add_score(request, [&](Result<ScoreResult> s) { answer = std::move(s); }));
            while (!scheduler->idle()) scheduler->run_forward();
            EXPECT_TRUE(answer && *answer);
            return meter.peak();
          };
          run();
          EXPECT_LE(static_cast<double>(run()), score_bytes(*model, request, rows))
              << "rows " << rows << ", length " << length << ", top " << top << ", causal " << causal;
        }
    }
  }
}

// Stores of a score's lanes: as many as the rows of a forward need, however long the canvases are.
TEST_F(RequestMemory, ScoresHaveNoMoreStoresThanRows) {
  const SmallModel full = model_of(false), causal = model_of(true);
  EXPECT_EQ(score_lanes(*open(full), 100, 64), 1) << "one in any case";
  EXPECT_EQ(score_lanes(*open(full), 100, 250), 2);
  EXPECT_EQ(score_lanes(*open(causal), 10, 250), 1);
}

// One that asks for too much ends with that error; who runs beside it keeps its answer.
TEST_F(RequestMemory, ThatIsNotThereIsTheErrorOfOne) {
  const SmallModel small = model_of(false);
  const auto model = open(small);
  const auto tokens = prompt(20);
  Request modest{.tokens = tokens, .options = {decode::LengthOptions{.gen_length = 8, .block_length = 8}}};
  Request greedy = modest;
  greedy.tokens = prompt(30);
  greedy.options.gen_length = 64, greedy.options.block_length = 64;
  greedy.alternatives = 1;  // 64 rows of 4,000 logits
  const auto alone = must((*Session::create(model, {.threads = 0}))->run(prepare(*model, modest).value(), {}));
  auto scheduler = *Scheduler::create(model, {.row_budget = 4096});
  std::optional<Result<Generation>> first, second;
  ASSERT_TRUE(scheduler->add(prepare(*model, modest).value(), {}, [&](Result<Generation> g) { first = std::move(g); }));
  ASSERT_TRUE(
      scheduler->add(prepare(*model, greedy).value(), {}, [&](Result<Generation> g) { second = std::move(g); }));
  {
    const NoLargeMemory refused(64 * 4000 * 4);
    while (!scheduler->idle()) scheduler->run_forward();
  }
  ASSERT_TRUE(first && second);
  ASSERT_FALSE(*second);
  EXPECT_EQ(second->error().kind, ErrorKind::memory);
  EXPECT_EQ(second->error().message, kOutOfMemory);
  ASSERT_TRUE(*first) << first->error().message;
  EXPECT_EQ((*first)->tokens, alone->tokens);
  EXPECT_FALSE(scheduler->fell_back());
  // With memory it goes on.
  second.reset();
  ASSERT_TRUE(
      scheduler->add(prepare(*model, greedy).value(), {}, [&](Result<Generation> g) { second = std::move(g); }));
  while (!scheduler->idle()) scheduler->run_forward();
  EXPECT_TRUE(second && *second);
}

// The same where the books of a request do not even fit: it is refused, and nobody else notices.
TEST_F(RequestMemory, ThatIsNotThereRefusesARequest) {
  const SmallModel small = model_of(false);
  const auto model = open(small);
  auto scheduler = *Scheduler::create(model, {.row_budget = 64});
  std::optional<Result<Generation>> first;
  ASSERT_TRUE(scheduler->add(
      prepare(*model, {.tokens = prompt(9), .options = {decode::LengthOptions{.gen_length = 8, .block_length = 8}}})
          .value(),
      {}, [&](Result<Generation> g) { first = std::move(g); }));
  bool called = false;
  const Ready large = prepare(*model, {.tokens = prompt(100),
                                       .options = {decode::LengthOptions{.gen_length = 100, .block_length = 100}}})
                          .value();
  {
    const NoLargeMemory refused(400);  // bytes of its prompt's tokens
    const auto id = scheduler->add(large, {}, [&](const Result<Generation>&) { called = true; });
    ASSERT_FALSE(id);
    EXPECT_EQ(id.error().kind, ErrorKind::memory);
  }
  while (!scheduler->idle()) scheduler->run_forward();
  EXPECT_FALSE(called);
  EXPECT_TRUE(first && *first);
}

}  // namespace
}  // namespace llada
