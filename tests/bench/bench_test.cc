// The benchmark on a model small enough for a test: not how fast, but that what it reports is consistent.
#include "bench/bench.h"

#include <gtest/gtest.h>

#include "bench/ceiling.h"

namespace llada::bench {
namespace {

BenchOptions small() {
  BenchOptions o;
  o.preset = "tiny:q4_0";
  o.load.threads = 2;
  o.rows = {1, 8};
  o.types = {DType::Q4_0, DType::F16};
  o.repeats = 2;
  o.stream_bytes = 1 << 20;
  o.attention_keys = 64;
  o.attention_rows = 8;
  o.prompt_tokens = 6, o.gen_length = 12, o.block_length = 4, o.tokens_per_step = 3;
  o.parts.machine = false;
  return o;
}

BenchReport run(BenchOptions options, void (*choose)(Parts&)) {
  options.parts = {false, false, false, false, false};
  choose(options.parts);
  auto report = run_bench(options);
  EXPECT_TRUE(report) << report.error().message;
  return report ? *report : BenchReport{};
}

TEST(Ceilings, LoopsCountTheirOperations) {
  const double one = int8_loop(1000);
  if (one == 0) GTEST_SKIP() << "no loop for this processor";
  EXPECT_EQ(int8_loop(3000), 3 * one);
  EXPECT_EQ(float_loop(2000), 2 * float_loop(1000));
  EXPECT_EQ(int8_loop(0), 0);
  EXPECT_NE(int8_instruction(), "none");
}

TEST(Ceilings, TheReadLoopReadsEveryLine) {
  std::vector<std::byte> bytes(64 * 100);
  for (size_t line = 0; line < 100; ++line) bytes[line * 64] = std::byte{1};
  EXPECT_EQ(read_loop(bytes), 100u);
}

TEST(Gemm, ErrorsAreThoseOfTheArithmetic) {
  const auto report = run(small(), [](Parts& parts) { parts.gemm = true; });
  ASSERT_EQ(report.gemm.size(), 2u * 1 * 2);  // types, the one shape of `tiny`, rows
  for (const GemmResult& g : report.gemm) {
    EXPECT_EQ(g.k, 256);
    EXPECT_EQ(g.n, 256);
    EXPECT_GT(g.gop_per_s, 0);
    EXPECT_NEAR(g.gop_per_s * g.ms / 1e3 * 1e9, 2.0 * 256 * 256 * static_cast<double>(g.rows), 1);
    EXPECT_LT(g.relative_error, 1e-3) << traits(g.type).name;
    if (traits(g.type).quantized) {
      EXPECT_GT(g.activation_error, 1e-3);  // 8 bits for a normal number: half a step of 1/127 of the largest
      EXPECT_LT(g.activation_error, 2e-2);
    }
  }
}

TEST(Gemm, NeedsWholeGroups) {
  ThreadPool pool(1);
  const auto result = measure_gemm(*kernels::available().back(), pool, DType::Q4_K, 96, 32, 1, 1 << 20, 1);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::invalid_input);
}

TEST(Forwards, PhasesAddUpToTheForward) {
  const auto report = run(small(), [](Parts& parts) { parts.forward = parts.attention = true; });
  ASSERT_EQ(report.forward.size(), 2u);
  // tiny: per layer four matrices of 256 x 256 and three more, twice; a head of 1024 x 256.
  const double work = 2.0 * (2 * 7 * 256 * 256 + 1024 * 256);
  for (const ForwardResult& f : report.forward) {
    EXPECT_EQ(f.logits, f.rows);
    EXPECT_NEAR(f.gop_per_s * f.ms / 1e3 * 1e9, work * static_cast<double>(f.rows), 10);
    double sum = 0;
    for (const double ms : f.phase_ms) sum += ms;
    EXPECT_GT(sum, 0);
    EXPECT_LE(f.ms_min, f.ms);
    EXPECT_LE(f.ms, f.ms_max);
  }
  ASSERT_EQ(report.attention.size(), 1u);
  EXPECT_EQ(report.attention[0].forward.keys, 64);
  EXPECT_GT(report.attention[0].ms, 0);
  EXPECT_LT(report.attention[0].percent_of_forward, 100);
  EXPECT_EQ(report.model.parameters, 2 * 1024 * 256 + 2 * (7 * 256 * 256 + 2 * 256) + 256);
}

TEST(WholeRuns, TakeTheForwardsOfTheScript) {
  const auto report = run(small(), [](Parts& parts) { parts.end_to_end = true; });
  ASSERT_EQ(report.end_to_end.size(), 2u);
  const EndToEndResult &per_block = report.end_to_end[0], &once = report.end_to_end[1];
  EXPECT_EQ(per_block.forwards, 6);  // blocks of four in steps of three and one
  EXPECT_EQ(per_block.full_forwards, 3);
  EXPECT_EQ(per_block.rows, 3 * (18 + 4));
  EXPECT_EQ(once.forwards, 6);
  EXPECT_EQ(once.full_forwards, 1);
  EXPECT_EQ(once.rows, 18 + (1 + 3) + (4 + 1) + (1 + 3) + (4 + 1) + (1 + 3));
  EXPECT_EQ(once.logit_rows, 3 * (4 + 1));
  EXPECT_GT(once.seconds, 0);
}

TEST(Bench, RefusesWhatMakesNoSense) {
  BenchOptions o = small();
  o.model = "somewhere.gguf";
  EXPECT_EQ(run_bench(o).error().message, "both of a model and a preset were given, needed one");
  o.preset.clear();
  o.layers = 3;
  EXPECT_EQ(run_bench(o).error().message, "layers: only a preset can have another number of them");
  o.layers = 0;
  o.attention_rows = 65;
  EXPECT_EQ(run_bench(o).error().message, "attention: found 65 rows over 64 keys");
  o = small();
  o.preset = "tiny:q9";
  EXPECT_EQ(run_bench(o).error().kind, ErrorKind::invalid_input);
}

}  // namespace
}  // namespace llada::bench
