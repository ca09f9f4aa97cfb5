// Requests in shared forwards: the answers that each has alone, on the cpu and on simulated devices; who is picked;
// what an error, a failing device and a shared prefix change for the others, which is nothing.
// labels of this file: native
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <thread>

#include "engine/convert.h"
#include "engine/picking.h"
#include "failing/failing_device.h"
#include "formats/convert.h"
#include "golden.h"
#include "llada2_files.h"
#include "shared_forwards.h"

namespace llada {
namespace {

constexpr int64_t kAnyRows = int64_t{1} << 40;

TEST(Picking, OldestFirstWithinTheBudget) {
  const std::vector<WaitingStep> three = {{10, 0}, {10, 0}, {10, 0}};
  EXPECT_EQ(pick(three, 100, 4), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(pick(three, 20, 4), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(pick(three, 29, 4), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(pick(three, 1, 4), (std::vector<size_t>{0})) << "somebody always";
  const std::vector<WaitingStep> uneven = {{10, 0}, {30, 0}, {5, 0}};
  EXPECT_EQ(pick(uneven, 20, 4), (std::vector<size_t>{0, 2})) << "who fits may pass who does not";
  EXPECT_TRUE(pick({}, 20, 4).empty());
  const std::vector<WaitingStep> heavy = {{5, 0, 0.01}, {5, 0, 0.01}, {5, 1, 0.01}, {5, 0, 0.001}, {5, 0}};
  EXPECT_EQ(pick(heavy, 100, 4), (std::vector<size_t>{0, 3, 4})) << "heavy steps take turns beside others";
  EXPECT_EQ(pick(heavy, 100, 1), (std::vector<size_t>{2, 3, 4})) << "in which the longest waiting is the next";
  EXPECT_EQ(pick(heavy, 100, 4, 0.025), (std::vector<size_t>{0, 1, 3, 4})) << "more where the forward takes longer";
  EXPECT_EQ(pick(std::span(heavy).first(3), 100, 4), (std::vector<size_t>{0, 1, 2})) << "nobody else waits";
}

TEST(Picking, TheImpatientComeFirst) {
  EXPECT_EQ(pick(std::vector<WaitingStep>{{10, 0}, {30, 3}, {5, 0}}, 20, 4), (std::vector<size_t>{0, 2}));
  EXPECT_EQ(pick(std::vector<WaitingStep>{{10, 0}, {30, 4}, {5, 0}}, 20, 4), (std::vector<size_t>{1}));
  EXPECT_EQ(pick(std::vector<WaitingStep>{{10, 0}, {30, 4}, {5, 6}}, 20, 4), (std::vector<size_t>{0, 2}))
      << "the longest waiting; then who fits";
  EXPECT_EQ(pick(std::vector<WaitingStep>{{1, 0}, {1, 0}}, 1, 0), (std::vector<size_t>{0})) << "equal: the older";
}

// Any budget, patience and sizes, with requests coming and going: the budget holds for all but a single one, nobody
// waits longer than the bound, and what is picked could not take one more.
TEST(Picking, NobodyWaitsForEver) {
  int64_t longest = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    auto random = [&, n = uint64_t{0}](int64_t below) mutable {
      return static_cast<int64_t>(mix64(seed * kRandomStep + ++n) % static_cast<uint64_t>(below));
    };
    const int64_t most = 1 + random(12), budget = 1 + random(60), patience = random(6);
    std::vector<WaitingStep> running;
    for (int forward = 0; forward < 200; ++forward) {
      while (static_cast<int64_t>(running.size()) < most && random(3) == 0) running.push_back({0, 0});
      for (WaitingStep& c : running) c.rows = 1 + random(40);
      const auto picked = pick(running, budget, patience);
      ASSERT_EQ(picked.empty(), running.empty());
      int64_t rows = 0;
      for (const size_t i : picked) rows += running[i].rows;
      EXPECT_TRUE(picked.size() <= 1 || rows <= budget);
      for (size_t i = 0; i < running.size(); ++i) {
        if (std::ranges::count(picked, i) == 0) {
          EXPECT_GT(running[i].rows + rows, budget);
        }
        ++running[i].passed_over;
      }
      for (const size_t i : picked) running[i].passed_over = 0;
      for (const WaitingStep& c : running) {
        EXPECT_LE(c.passed_over, patience + most - 1);
        longest = std::max(longest, c.passed_over - patience);
      }
      std::erase_if(running, [&](const WaitingStep& c) { return c.passed_over == 0 && random(9) == 0; });
    }
  }
  EXPECT_GT(longest, 3) << "the bound is not far from what happens";
}

TEST(Picking, TheBudgetIsWhereRowsStopBeingCheap) {
  using Points = std::vector<decode::LatencyPoint>;
  EXPECT_EQ(row_budget(Points{{1, 10}, {8, 11.5}, {16, 20}, {32, 40}}), 16) << "1.25 ms a row at best";
  EXPECT_EQ(row_budget(Points{{1, 10}, {8, 10}, {16, 20}, {32, 40}}), 8);
  EXPECT_EQ(row_budget(Points{{1, 1}, {8, 8}}), 1);
  EXPECT_EQ(row_budget(Points{{4, 7}}), 4);
  EXPECT_EQ(row_budget({}), 1);
}

// Forwards of a device whose rows are free up to `knee` and cost their full price behind it.
int64_t learned(int64_t knee, std::span<const int64_t> sizes, RowBudget& budget) {
  for (const int64_t rows : sizes) budget.ran(rows, 0.01 * static_cast<double>(std::max(rows, knee)));
  return budget.rows();
}

TEST(Picking, TheBudgetIsLearnedFromForwardsThatAreRunAnyway) {
  const RowBudget fresh(RowBudget::kMost);
  EXPECT_EQ(fresh.rows(), 64) << "before anything is known";
  // As many requests of 16 rows as the budget has room for, again and again, and fewer where others have ended.
  for (const int64_t knee : {8, 16, 32, 64, 128}) {
    RowBudget budget(RowBudget::kMost);
    for (int forward = 0; forward < 20; ++forward) {
      const int64_t rows = std::max<int64_t>(budget.rows() / 16, 1) * 16;
      learned(knee, std::array{rows, int64_t{32}, int64_t{16}, int64_t{8}}, budget);
    }
    EXPECT_EQ(budget.rows(), knee) << knee;
  }
  RowBudget mixture(RowBudget::kMostOfMixture);
  for (int forward = 0; forward < 20; ++forward) learned(1000, std::array{mixture.rows()}, mixture);
  EXPECT_EQ(mixture.rows(), 256);
  // A forward that something interrupted is not believed for ever.
  RowBudget budget(RowBudget::kMost);
  budget.ran(64, 100);
  EXPECT_EQ(learned(64, std::array{int64_t{32}}, budget), 32);
  for (int forward = 0; forward < 300; ++forward) learned(64, std::array{budget.rows()}, budget);
  EXPECT_EQ(budget.rows(), 64);
  // What says nothing changes nothing.
  RowBudget quiet(RowBudget::kMost);
  quiet.ran(0, 1), quiet.ran(5000, 1), quiet.ran(8, 0);
  EXPECT_EQ(quiet.rows(), 64);
}

class SharedForwards : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("llada_shared_forwards_{}", ::getpid());
    std::filesystem::create_directories(folder_);
    for (const char* type : {"q8_0", "q4_0"}) {
      must(convert_model({.path = kFloat, .out_path = path(type), .type = type, .imatrix = {}}, {}));
    }
    write_gguf(make_small_model(DType::F32, tiny_llada2(8)), path("llada2"));
    const ModelFile file = std::move(*ModelFile::open(path("llada2")));
    for (const DType type : {DType::Q8_0, DType::F16})
      if (!convert_to_gguf(file, nullptr, path(fmt::format("llada2-{}", traits(type).name)),
                           {.type = type, .progress = {}}))
        throw std::runtime_error("llada2 could not be converted");
    text_ = load_golden(kFloat + "/golden.json").back().canvas;
    text_.resize(24);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }
  static std::string path(const std::string& name) { return (folder_ / (name + ".gguf")).string(); }
  static std::shared_ptr<const Model> load(const std::string& path, const std::string& device = "cpu",
                                           int threads = 2) {
    return *must(Model::load(
        path, {.device = device, .plugin = &failing_devices(), .isa = isa_from_environment(), .threads = threads}));
  }
  static std::vector<int32_t> causal_text() {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < 27; ++i) ids.push_back(static_cast<int32_t>(37 + 53 * i % 900));
    return ids;
  }
  static std::vector<Wanted> eight() { return eight_requests(text_, quick() ? 8 : 16); }
  static std::vector<Wanted> eight_causal() { return eight_block_causal(causal_text(), 13, 8, 0.012); }

  static inline const std::string kFloat = LLADA_SOURCE_DIR "/models/tiny-llada";
  static inline std::filesystem::path folder_;
  static inline std::vector<int32_t> text_;
};

// The requests really differ, really share forwards, and some are really cancelled.
// labels: golden -native
TEST_F(SharedForwards, TheEightAreWhatTheyClaim) {
  for (const bool causal : {false, true}) {
    const auto model = load(causal ? path("llada2") : kFloat);
    const auto wanted = causal ? eight_causal() : eight();
    ASSERT_EQ(wanted.size(), 8u);
    const auto alone = run_alone(model, wanted);
    int64_t steps = 0, cancelled = 0, sparse = 0, trials = 0, drafts = 0, changed = 0;
    std::vector<size_t> lengths;
    for (const Ran& ran : alone) {
      steps += ran.stats.steps, cancelled += ran.stats.cancelled, sparse += ran.stats.sparse_forwards;
      trials += ran.stats.trial_rows, drafts += ran.stats.counters.drafts_proposed;
      changed += ran.stats.counters.revisions_made;
      lengths.push_back(ran.tokens.size());
    }
    std::ranges::sort(lengths);
    EXPECT_GE(std::ranges::unique(lengths).begin() - lengths.begin(), 3);
    EXPECT_EQ(cancelled, 2);
    EXPECT_GT(changed, 0);
    EXPECT_GT(trials, 0);
    EXPECT_TRUE(causal || (sparse > 0 && drafts > 0));
    const Together together = run_together(model, wanted, {.row_budget = kAnyRows});
    expect_same(wanted, together.ran, alone);
    EXPECT_EQ(together.stats.parts, steps);
    int64_t last = 0;  // everybody takes part in every forward from the first to their last
    for (size_t i = 0; i < 8; ++i) last = std::max(last, wanted[i].joins + alone[i].stats.steps);
    EXPECT_EQ(together.stats.forwards, last);
    EXPECT_LT(last, steps);
    EXPECT_EQ(together.stats.most_passed_over, 0);
  }
}

// labels: golden
TEST_F(SharedForwards, NeitherBudgetNorPatienceNorOrderChangesAnAnswer) {
  for (const bool causal : {false, true}) {
    const auto model = load(causal ? path("llada2-q8_0") : path("q8_0"));
    auto wanted = causal ? eight_causal() : eight();
    const auto alone = run_alone(model, wanted);
    struct Way {
      int64_t budget, patience, most_running;
    };
    std::vector<Way> ways = {{1, 0, 64}, {1, 5, 64}, {40, 2, 64}, {90, 1, 3}, {kAnyRows, 4, 64}};
    if (quick()) ways = {{1, 5, 64}, {40, 2, 3}};
    for (const Way& way : ways) {
      const Together together = run_together(
          model, wanted, {.row_budget = way.budget, .patience = way.patience, .most_running = way.most_running});
      expect_same(wanted, together.ran, alone);
      EXPECT_LE(together.stats.most_passed_over, way.patience + std::min<int64_t>(way.most_running, 8) - 1);
      EXPECT_LE(together.stats.most_rows, way.budget);
      if (way.budget == 1) {
        EXPECT_EQ(together.stats.forwards, together.stats.parts) << "one at a time";
      }
    }
    // Another order of coming, and everybody at once.
    std::ranges::reverse(wanted);
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i].joins = i < 4 ? 0 : static_cast<int64_t>(i);
    std::vector<Ran> reversed(alone.rbegin(), alone.rend());
    expect_same(wanted, run_together(model, wanted, {.row_budget = kAnyRows}).ran, reversed);
  }
}

// labels: -threads
TEST_F(SharedForwards, OfEveryWeightTypeAndOnSimulatedDevices) {
  const std::string cases[][2] = {{path("q4_0"), "cpu"},
                                  {LLADA_SOURCE_DIR "/models/tiny-llada-moe", "cpu"},
                                  {path("q8_0"), "sim:v79-8elite,window=50%"},
                                  {path("q4_0"), "sim:v81-8elite-gen5"},
                                  {path("llada2-f16"), "cpu"},
                                  {path("llada2-q8_0"), "sim:v79-8elite,window=50%"}};
  for (size_t i = 0; i < std::size(cases); i += quick() ? 2 : 1) {
    const auto& [file, device] = cases[i];
    const auto wanted = file.contains("llada2") ? eight_causal() : eight();
    const auto model = load(file, device);
    const auto alone = run_alone(model, wanted);
    const Together together = run_together(model, wanted, {.row_budget = 64});
    expect_same(wanted, together.ran, alone);
    EXPECT_LT(together.stats.forwards, together.stats.parts) << file;
  }
}

// A device that fails is replaced for all; a fallback computes the same.
TEST_F(SharedForwards, AFailingDeviceFallsBackForAll) {
  const auto wanted = eight();
  const auto alone = run_alone(load(path("q8_0")), wanted);
  for (const char* device : {"cpu,fallback=cpu,fail=gone:400", "sim:v79-8elite,window=50%,fail=submit:300",
                             "cpu,fallback=cpu,fail=submit:0"}) {
    const Together together = run_together(load(path("q8_0"), device), wanted, {.row_budget = 100});
    expect_same(wanted, together.ran, alone);
    EXPECT_TRUE(together.fell_back) << device;
    EXPECT_EQ(together.warnings.size(), 1u) << device;
  }
}

// Without a fallback all that are under way end with the error; who had ended keeps the answer.
TEST_F(SharedForwards, WithoutAFallbackEverybodyHearsOfIt) {
  const auto model = load(path("q8_0"), "cpu,fallback=none,fail=gone:600");
  auto scheduler = *Scheduler::create(model, {.row_budget = kAnyRows});
  int ended = 0, failures = 0;
  for (const Wanted& w : eight())
    ASSERT_TRUE(scheduler->add(prepare(*model, w.request).value(), {}, [&](const Result<Generation>& result) {
      ++ended;
      failures += !result;
    }));
  while (!scheduler->idle()) scheduler->run_forward();
  EXPECT_EQ(ended, 8);
  EXPECT_GT(failures, 0);
}

// A forward that finds no memory for all is computed by parts; where it is there for nobody, all hear of it before each
// has tried alone.
TEST_F(SharedForwards, WithoutMemoryForAllAreComputedByParts) {
  auto wanted = eight();
  for (Wanted& w : wanted) w.joins = 0;
  const auto alone = run_alone(load(path("q8_0")), wanted);
  for (const char* device : {"cpu,fail=crowd:3", "cpu,fail=crowd:1"})
    expect_same(wanted, run_together(load(path("q8_0"), device), wanted, {.row_budget = kAnyRows}).ran, alone);
  const auto model = load(path("q8_0"), "cpu,fail=crowd:0");
  auto scheduler = *Scheduler::create(model, {.row_budget = kAnyRows});
  std::vector<std::string> errors;
  for (const Wanted& w : wanted)
    ASSERT_TRUE(scheduler->add(prepare(*model, w.request).value(), {}, [&](const Result<Generation>& result) {
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().kind, ErrorKind::memory);
      errors.push_back(result.error().message);
    }));
  scheduler->run_forward();
  ASSERT_EQ(errors.size(), 8u);
  EXPECT_EQ(std::ranges::count_if(errors, [](const auto& e) { return e.contains("for the time 5"); }), 7) << errors[0];
}

// One whose store cannot be had, and refused ones.
TEST_F(SharedForwards, AFailingRequestHarmsNobody) {
  const auto model = load(kFloat);
  const auto wanted = eight();
  const auto alone = run_alone(model, wanted);
  auto scheduler = *Scheduler::create(model, {.row_budget = 50});
  Request bad = wanted[0].request;
  bad.options.gen_length = 4096;
  EXPECT_FALSE(prepare(*model, bad));
  bad = wanted[0].request;
  bad.tokens[0] = 1 << 20;
  EXPECT_THAT(why_not(prepare(*model, bad)), testing::HasSubstr("token id 1048576"));
  Recorder first(wanted[0]), second(wanted[4]);
  std::vector<Ran> got(2);
  ASSERT_TRUE(scheduler->add(prepare(*model, wanted[0].request).value(), {first.on_step()},
                             [&](auto g) { got[0] = first.ran(*g); }));
  bool cancelled_at_once = false;
  const auto id = scheduler->add(prepare(*model, wanted[1].request).value(), {}, [&](const Result<Generation>& g) {
    cancelled_at_once = g && g->stats.decode.cancelled && g->stats.decode.steps == 0;
  });
  ASSERT_TRUE(id);
  scheduler->cancel(*id);
  scheduler->cancel(*id);
  scheduler->cancel(12345);
  EXPECT_TRUE(cancelled_at_once);
  ASSERT_TRUE(scheduler->add(prepare(*model, wanted[4].request).value(), {second.on_step()},
                             [&](auto g) { got[1] = second.ran(*g); }));
  while (!scheduler->idle()) scheduler->run_forward();
  EXPECT_TRUE(got[0] == alone[0]);
  EXPECT_TRUE(got[1] == alone[4]);
}

// The budget that forwards teach changes who shares them, and no answer. Making a Scheduler runs none.
TEST_F(SharedForwards, ALearnedBudgetChangesNoAnswer) {
  for (const char* device : {"cpu", "sim:v79-8elite"}) {  // measured, and modelled
    const auto model = load(path("q8_0"), device);
    const auto wanted = eight();
    const Together together = run_together(model, wanted, {});
    expect_same(wanted, together.ran, run_alone(model, wanted));
    EXPECT_LT(together.stats.forwards, together.stats.parts) << device;
  }
  EXPECT_EQ((*Scheduler::create(load(kFloat), {}))->stats().forwards, 0);
  EXPECT_FALSE(Scheduler::create(load(kFloat), {.row_budget = -1}));
}

// ---- Shared prefixes

struct Reuse {
  std::vector<Generation> generations;
  std::vector<std::string> predictions;  // confidences, bit for bit, and edits
};

// Each after the other in one scheduler: a conversation of three turns, and another with the same beginning.
Reuse converse(const std::shared_ptr<const Model>& model, const std::shared_ptr<PrefixCache>& prefixes,
               decode::Revision revision = decode::Revision::none) {
  Reuse out;
  auto scheduler = *Scheduler::create(model, {.row_budget = kAnyRows, .prefixes = prefixes});
  std::vector<int32_t> history;
  const auto ask = [&](int32_t seed, int64_t tokens) {
    for (int64_t i = 0; i < tokens; ++i) history.push_back(static_cast<int32_t>((seed + 53 * i) % 900 + 20));
    Request r{.tokens = history};
    r.options.gen_length = 13, r.options.block_length = 8, r.options.kv = decode::KvChoice::block;
    r.options.acceptance = decode::Acceptance::threshold, r.options.threshold = 0.012;
    r.options.early_stop = decode::EarlyStop::none;
    r.options.revision = revision, r.options.stable_threshold = 0.02, r.options.edit_threshold = 0.012;
    out.predictions.emplace_back();
    const auto on_step = [&](const decode::StepEvent& event) {
      for (const auto& p : event.predictions)
        out.predictions.back() += fmt::format("{} {} {:a} {:a};", p.position, p.token, p.probability, p.entropy);
      for (const auto& e : event.edits) out.predictions.back() += fmt::format("{}={} ", e.position, e.token);
      return true;
    };
    EXPECT_TRUE(scheduler->add(prepare(*model, r).value(), {on_step}, [&](Result<Generation> g) {
      ASSERT_TRUE(g) << g.error().message;
      out.generations.push_back(std::move(*g));
    }));
    while (!scheduler->idle()) scheduler->run_forward();
    history.insert(history.end(), out.generations.back().tokens.begin(), out.generations.back().tokens.end());
  };
  ask(1, 19);
  const std::vector<int32_t> common = history;
  ask(2, 5), ask(3, 6);
  history = common;
  ask(4, 9);
  return out;
}

TEST_F(SharedForwards, AConversationsHistoryIsNotComputedAgain) {
  for (const char* type : {"llada2", "llada2-q8_0"}) {
    const auto model = load(path(type));
    for (const auto revision : {decode::Revision::none, decode::Revision::edit}) {
      const Reuse without = converse(model, nullptr, revision);
      const auto prefixes = std::make_shared<PrefixCache>(int64_t{1} << 24);
      const Reuse with = converse(model, prefixes, revision);
      EXPECT_EQ(with.predictions, without.predictions);
      ASSERT_EQ(with.generations.size(), 4u);
      for (size_t i = 0; i < 4; ++i) {
        const Generation &a = with.generations[i], &b = without.generations[i];
        EXPECT_EQ(a.tokens, b.tokens);
        EXPECT_EQ(a.stats.decode.nfe, b.stats.decode.nfe);
        EXPECT_EQ(a.stats.decode.rows, b.stats.decode.rows - a.stats.reused_positions);
        EXPECT_EQ(b.stats.reused_positions, 0);
        // All whole blocks of the turn before, but the last one, which no forward has seen finished; the second turn's
        // prompt has that one for the fourth.
        EXPECT_EQ(a.stats.reused_positions, (std::array<int64_t, 4>{0, 24, 48, 32})[i]) << i;
      }
      // Once more, by sessions and with everything known.
      const Reuse again = converse(model, prefixes, revision);
      EXPECT_EQ(again.predictions, without.predictions);
      EXPECT_EQ(again.generations[0].stats.reused_positions, 16) << "the prompt's whole blocks";
      EXPECT_EQ(converse(model, std::make_shared<PrefixCache>(0), revision).predictions, without.predictions);
      EXPECT_EQ(converse(model, std::make_shared<PrefixCache>(20000), revision).predictions, without.predictions);
    }
  }
}

// A long prompt is computed in pieces. The policy `none` computes all of it in each forward, in one piece.
TEST_F(SharedForwards, PiecesOfAPromptAreThePrompt) {
  ModelConfig config = tiny_llada2(8);
  config.context = 2048;
  write_gguf(make_small_model(DType::F32, config), path("llada2-long"));
  const auto model = load(path("llada2-long"));
  Request request;
  for (int64_t i = 0; i < 1300; ++i) request.tokens.push_back(static_cast<int32_t>(37 + 53 * i % 900));
  request.options.gen_length = 16, request.options.block_length = 8, request.options.kv = decode::KvChoice::none;
  request.options.acceptance = decode::Acceptance::threshold, request.options.threshold = 0.012;
  const auto whole = must(open_session(model)->run(prepare(*model, request).value(), {}));
  request.options.kv = decode::KvChoice::block;
  const auto prefixes = std::make_shared<PrefixCache>(int64_t{1} << 26);
  const std::vector<std::pair<int64_t, int64_t>> told[] = {
      {{0, 1300}, {512, 1300}, {1024, 1300}}, {{0, 1300}, {512, 1300}, {1024, 1300}}, {}};
  for (int round = 0; round < 3; ++round) {  // without a cache, with one that is empty, with one that has the prompt
    auto scheduler = *Scheduler::create(
        model, {.row_budget = kAnyRows, .prefixes = round > 0 ? prefixes : std::shared_ptr<PrefixCache>()});
    std::vector<std::pair<int64_t, int64_t>> heard;
    int64_t rows = 0, first = -1;
    const auto on_prompt = [&](int64_t done, int64_t total) { heard.emplace_back(done, total); };
    const auto on_step = [&](const decode::StepEvent& event) {
      if (first < 0) first = event.plan.rows.front();
      rows += decode::rows_of(event.plan);
      return true;
    };
    Generation got;
    ASSERT_TRUE(scheduler->add(prepare(*model, request).value(), {on_step, on_prompt},
                               [&](Result<Generation> g) { got = std::move(*g); }));
    while (!scheduler->idle()) scheduler->run_forward();
    EXPECT_EQ(got.stats.canvas_hash, whole->stats.canvas_hash);
    EXPECT_EQ(got.stats.decode.nfe, whole->stats.decode.nfe);
    EXPECT_EQ(heard, told[round]);
    EXPECT_EQ(first, round < 2 ? 1024 : 1296) << "what was there before the first plan";
    EXPECT_EQ(got.stats.decode.rows, rows + (round < 2 ? 1024 : 0));
    EXPECT_EQ(got.stats.reused_positions, round < 2 ? 0 : 1296);
    EXPECT_LE(scheduler->stats().rows, got.stats.decode.rows);
  }
  // It can be given up between two pieces.
  auto scheduler = *Scheduler::create(model, {.row_budget = kAnyRows});
  bool cancelled = false;
  const auto id = scheduler->add(prepare(*model, request).value(), {},
                                 [&](Result<Generation> g) { cancelled = g->stats.decode.cancelled; });
  scheduler->run_forward();
  scheduler->cancel(*id);
  EXPECT_TRUE(cancelled);
  EXPECT_TRUE(scheduler->idle());
  EXPECT_EQ(scheduler->stats().rows, kPromptPiece);
}

TEST_F(SharedForwards, ASharedPrefixIsNoPartOfTheAnswerWhoeverIsThere) {
  const auto model = load(path("llada2-q8_0"));
  const auto other = load(path("llada2"));
  auto wanted = eight_causal();
  auto alone = run_alone(model, wanted);
  const auto prefixes = std::make_shared<PrefixCache>(int64_t{1} << 24);
  const auto without_rows = [](std::vector<Ran> all) {
    for (Ran& ran : all) ran.recording.clear(), ran.stats.rows = ran.stats.full_forwards = 0;
    return all;
  };
  alone = without_rows(alone);
  expect_same(wanted, without_rows(run_together(other, wanted, {.row_budget = 40, .prefixes = prefixes}).ran),
              without_rows(run_alone(other, wanted)));
  for (int i = 0; i < 2; ++i)
    expect_same(wanted, without_rows(run_together(model, wanted, {.row_budget = 40, .prefixes = prefixes}).ran), alone);
  EXPECT_GT(prefixes->stats().found, 0);
}

TEST_F(SharedForwards, FullAttentionSharesNothing) {
  const auto prefixes = std::make_shared<PrefixCache>(int64_t{1} << 24);
  const auto model = load(kFloat);
  const auto wanted = eight();
  for (int i = 0; i < 2; ++i) run_together(model, wanted, {.row_budget = 40, .prefixes = prefixes});
  EXPECT_EQ(prefixes->stats().published, 0);
}

// A cache that a device filled which then failed is left alone from there on.
TEST_F(SharedForwards, AFallbackKeepsAwayFromTheCache) {
  const auto prefixes = std::make_shared<PrefixCache>(int64_t{1} << 24);
  const Reuse expected = converse(load(path("llada2-q8_0")), nullptr);
  const auto failing = load(path("llada2-q8_0"), "cpu,fallback=cpu,fail=gone:150");
  const Reuse got = converse(failing, prefixes);
  EXPECT_EQ(got.predictions, expected.predictions);
  EXPECT_EQ(got.generations.back().stats.reused_positions, 0);
}

// ---- The engine's thread

TEST_F(SharedForwards, ManyThreadsSubmitAndCancel) {
  const auto model = load(kFloat);
  const auto wanted = eight();
  std::vector<Wanted> uncancelled = wanted;
  for (Wanted& w : uncancelled) w.cancelled_after.reset();
  const auto alone = run_alone(model, uncancelled);
  std::atomic<int> whole = 0, cancelled = 0, steps_seen = 0;
  {
    const auto engine = *Engine::create(model, {.row_budget = 60, .patience = 2});
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (size_t k = 0; k < (quick() ? 3 : 6); ++k) {
          const size_t i = (t + 3 * k) % wanted.size();
          Recorder recorder(uncancelled[i]);
          const auto handle = engine->submit(prepare(*model, wanted[i].request).value(),
                                             {.run = {recorder.on_step()}, .keep_steps = true});
          const bool cancel = (t + k) % 4 == 1;
          while (const auto step = handle->next()) {
            ++steps_seen;
            EXPECT_FALSE(step->edits.size() > 1000);
            if (cancel && step->step == 0) handle->cancel();
          }
          const Result<Generation>& g = handle->wait();
          ASSERT_TRUE(g) << g.error().message;
          EXPECT_TRUE(handle->done());
          if (g->stats.decode.cancelled) {
            ++cancelled;
          } else {
            EXPECT_TRUE(recorder.ran(*g) == alone[i]) << wanted[i].name;
            ++whole;
          }
        }
      });
    threads.clear();
    EXPECT_GT(engine->stats().parts, engine->stats().forwards);
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(cancelled, 0);
  EXPECT_GT(steps_seen, whole);
}

// However an Engine ends: each on_done once, nothing of a request behind it, and nothing at all once it is gone.
TEST_F(SharedForwards, NoCallbackOutlivesTheEngine) {
  const auto model = load(kFloat);
  const auto wanted = eight();
  for (int way = 0; way < 6; ++way) {
    struct Seen {
      std::atomic<int> done = 0, steps_behind_done = 0;
    };
    std::vector<Seen> seen(2 * wanted.size());
    std::atomic<bool> gone = false;
    std::atomic<int> late = 0;
    std::vector<std::shared_ptr<Submission>> handles;
    Engine* again = nullptr;
    const auto submit = [&](size_t i, bool chain, const auto& self) -> std::shared_ptr<Submission> {
      const auto on_step = [&, i](const decode::StepEvent&) {
        late += gone;
        seen[i].steps_behind_done += seen[i].done > 0;
        return true;
      };
      const auto on_done = [&, i, chain](const Result<Generation>&) {
        late += gone;
        ++seen[i].done;
        // As a server goes from a prompt's score to its answer, in the midst of the end too.
        if (chain) self(i + wanted.size(), false, self);
      };
      return again->submit(prepare(*model, wanted[i % wanted.size()].request).value(),
                           {.run = {on_step}, .on_done = on_done});
    };
    {
      const auto engine = *Engine::create(model, {.row_budget = 30, .most_running = way % 2 == 0 ? 2 : 8});
      again = engine.get();
      std::vector<std::jthread> cancelling;
      for (size_t i = 0; i < wanted.size(); ++i) handles.push_back(submit(i, true, submit));
      if (way >= 2) handles[0]->wait_for(std::chrono::milliseconds(1));
      if (way >= 4)  // another thread's cancelling and the end may meet
        cancelling.emplace_back([handles] {
          for (const auto& handle : handles) handle->cancel();
        });
    }
    gone = true;
    for (const auto& handle : handles) {
      EXPECT_TRUE(handle->done());
      handle->cancel();
    }
    for (const Seen& of : seen) {
      EXPECT_EQ(of.done, 1) << way;
      EXPECT_EQ(of.steps_behind_done, 0) << way;
    }
    EXPECT_EQ(late, 0) << way;
  }
}

TEST_F(SharedForwards, TheEngineEndsWithWhatIsUnderWay) {
  const auto model = load(kFloat);
  std::vector<std::shared_ptr<Submission>> handles;
  std::atomic<int> called = 0;
  {
    const auto engine = *Engine::create(model, {.row_budget = 30, .most_running = 2});
    for (const Wanted& w : eight())
      handles.push_back(
          engine->submit(prepare(*model, w.request).value(), {.on_done = [&](const auto&) { ++called; }}));
  }
  EXPECT_EQ(called, 8);
  for (const auto& handle : handles) {
    ASSERT_TRUE(handle->done());
    ASSERT_TRUE(handle->wait());
    handle->cancel();
  }
  EXPECT_TRUE(handles.back()->wait()->stats.decode.cancelled);
}

}  // namespace
}  // namespace llada
