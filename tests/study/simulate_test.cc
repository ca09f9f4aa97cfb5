// The timing model against the published table (arXiv 2606.13740, SM8750, 128 tokens of LLaDA-8B in Q4_0) and
// against what it must say of newer chips; recordings as a source of passes.
// labels of this file: native
#include "study/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>
#include <tuple>

#include "base/file.h"
#include "eval/recording.h"
#include "must.h"
#include "study/presets.h"
#include "study/sim/profile.h"

namespace llada {
namespace {

SimulateOptions options(const std::string& profile) {
  SimulateOptions o;
  o.profile = profile;
  return o;
}

Simulation simulate(const SimulateOptions& o) {
  auto result = simulate_ladder(o);
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

double off(double value, double published) { return std::fabs(value / published - 1); }

// labels: long
TEST(PaperTable, SixLinesWithinFivePercentAndTheStepWithinThree) {
  const Simulation s = simulate(options("sm8750-paper"));
  ASSERT_EQ(s.ladder.size(), 6u);
  const double published[] = {2996.2, 607.0, 341.2, 87.0, 71.6, 16.1};
  for (size_t i = 0; i < 6; ++i) EXPECT_LT(off(s.ladder[i].seconds, published[i]), 0.05) << s.ladder[i].name;
  EXPECT_LT(off(s.step128_cpu_s, 14.76), 0.03);
  EXPECT_LT(off(s.step128_npu_s, 1.53), 0.03);
  // One token per pass up to SOMR, then the passes that the table implies: 103.5 and 15.2.
  const int64_t passes[] = {128, 128, 128, 128, 104, 15};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(s.ladder[i].passes, passes[i]) << s.ladder[i].name;
  for (const SimulatedLine& line : s.ladder) EXPECT_GT(line.joules, 0);
}

// Without SOMR all weights are remapped in every pass and every second of it shows; with SOMR almost nothing
// does. The work beside it is the same.
// labels: long
TEST(PaperTable, SomrIsOnlyExposedMapTime) {
  const Simulation s = simulate(options("sm8750-paper"));
  const SimulatedLine &without = s.ladder[2], &with = s.ladder[3];
  EXPECT_NEAR(without.seconds - without.exposed_map_seconds, with.seconds - with.exposed_map_seconds,
              1e-6 * with.seconds);
  EXPECT_NEAR(without.exposed_map_seconds, without.map_seconds, 1e-6 * without.map_seconds);
  EXPECT_LT(with.exposed_map_seconds, 0.01 * with.seconds);
  EXPECT_GT(with.map_seconds, 30) << "it is hidden, not absent";
  EXPECT_NEAR(without.npu_seconds, with.npu_seconds, 1e-9 * with.npu_seconds);
  EXPECT_NEAR(without.bytes_mapped_per_pass / 0x1p30, 3.66, 0.0065) << "all the layers, the head is the CPU's";
  EXPECT_NEAR(with.bytes_mapped_per_pass / 0x1p30, 0.68, 0.0065);
  EXPECT_NEAR(with.lower_bound_bytes / 0x1p30, 0.46, 0.0065);
}

// labels: long
TEST(PaperTable, ExposedTimeVanishesSoonAfterAnyPlanCouldHideIt) {
  const auto rows = must(sweep_window(options("sm8750-paper"), 2.0, 4.25, 0.25));
  ASSERT_EQ(rows->size(), 10u);
  double before = 1e9;
  for (const SweepRow& row : *rows) {
    ASSERT_EQ(row.error, "") << row.window_gib;
    EXPECT_LE(row.line.exposed_map_seconds, before) << row.window_gib;
    before = row.line.exposed_map_seconds;
    EXPECT_LE(row.least_exposed_s, row.line.exposed_map_seconds + 1e-9) << row.window_gib;
    // At 3 GiB (3.2 GB) a plan would have to map more than its layers can hide.
    EXPECT_EQ(row.least_exposed_s > 0.1 * row.line.seconds, row.window_gib <= 3.0) << row.window_gib;
    EXPECT_EQ(row.least_exposed_s > 0, row.window_gib < 3.5) << row.window_gib;
    if (row.window_gib >= 3.5) {
      EXPECT_LT(row.line.exposed_map_seconds, 0.005 * row.line.seconds) << row.window_gib;
    }
    if (row.window_gib <= 2.75) {
      EXPECT_GT(row.line.exposed_map_seconds, 0.1 * row.line.seconds) << row.window_gib;
    }
    if (row.window_gib > 3.96) {
      EXPECT_EQ(row.line.bytes_mapped_per_pass, 0) << "everything fits";
    }
    for (const auto& [name, bytes] : row.policy_bytes)
      if (name != "sessions") {  // more windows than one, so another bound
        EXPECT_GE(bytes + 1, row.lower_bound_bytes) << name;
      }
  }
}

// labels: long
TEST(NewerChips, BeatAutoregressiveDecodingAndSomrHasLittleToDo) {
  const Simulation v79 = simulate(options("v79-8elite"));
  EXPECT_LT(v79.ladder.back().seconds, 5);
  EXPECT_NEAR(v79.rival_seconds, 9.9, 0.05);
  EXPECT_LT(v79.ladder.back().seconds, v79.rival_seconds);
  // Also with five tokens per pass, the least that the published table implies.
  SimulateOptions slow = options("v79-8elite");
  slow.tokens_per_pass = 5;
  const auto line = must(simulate_last_line(slow));
  EXPECT_EQ(line->passes, 26);
  EXPECT_LT(line->seconds, 5);

  const Simulation v81 = simulate(options("v81-8elite-gen5"));
  EXPECT_LT(v81.ladder.back().seconds, 4);
  EXPECT_EQ(v81.window_bytes, -1);
  EXPECT_EQ(v81.ladder[2].seconds, v81.ladder[3].seconds) << "SOMR contributes nothing";
  for (const SimulatedLine& l : v81.ladder) EXPECT_EQ(l.bytes_mapped_per_pass, 0);
  // The paper's chip had three quarters saved; cheap mapping, at the upper bound of its price, leaves less
  // than a half, and at the lower one less than a quarter.
  EXPECT_GT(v79.ladder[3].seconds, 0.5 * v79.ladder[2].seconds);
  ASSERT_TRUE(v79.somr_saving_low && v79.somr_saving_high);
  EXPECT_LT(*v79.somr_saving_low, 0.25);
  EXPECT_NEAR(*v79.somr_saving_high, 1 - v79.ladder[3].seconds / v79.ladder[2].seconds, 0.02);
}

// A prompt, then canvases of 256 rows. The DSP has what is not an expert's; a window that holds it maps nothing, and
// one that does not maps no less than what is missing.
TEST(Canvases, RunOnBothPhonesThroughTheWindowThatTheirLayersNeed) {
  double weights = 0;
  const PresetSpec spec = *parse_preset("diffusion-gemma-26b:q4_0");
  for (const PresetTensor& t : tensors_of(spec.preset))
    if (t.shape.rank > 1 && !t.name.contains("_exps") && !t.name.contains("ffn_gate_inp"))
      weights += static_cast<double>(t.shape.elements()) * 18 / 32;
  for (const char* phone : {"v79-8elite", "v75-8gen3"}) {
    SimulateOptions o = options(phone);
    o.preset = "diffusion-gemma-26b:q4_0", o.tokens_per_pass = 128, o.gen = 300;
    const auto wide = must(simulate_last_line(o));
    EXPECT_EQ(wide->passes, 1 + 2 + 1 + 2) << "the prompt, two canvases, and the first of them once more";
    EXPECT_EQ(wide->tokens, 512);
    EXPECT_EQ(wide->bytes_mapped_per_pass, 0);
    o.window_gib = 1;
    const auto narrow = must(simulate_last_line(o));
    EXPECT_NEAR(narrow->lower_bound_bytes, weights - 0.7 * 0x1p30, 0.01 * weights);
    EXPECT_GE(narrow->bytes_mapped_per_pass, narrow->lower_bound_bytes);
    EXPECT_GE(narrow->seconds, wide->seconds);
    o.tokens_per_pass = 1e-300;
    EXPECT_EQ(why_not(simulate_last_line(o)),
              "tokens per pass: found 1e-300, needed 0.0078125 to the block's 256: 65536 passes at most");
  }
}

// This program's own kernels: the time of a pass is that of its instruction packets, and cycles per packet decide whether
// the DSP is faster than the CPU.
// labels: long
TEST(OwnKernels, PacketsAreTheTimeOfAPass) {
  const Simulation s = simulate(options("v79-hvx"));
  // 46 M packets a layer of 32 rows, 32 layers, at 2.4 G packets a second (docs/lab/hexagon-dsp.md); attention over 206
  // positions, the head and hand-overs come on top.
  const double packets_s = 32 * 46e6 / 2.4e9;
  const double pass = (s.ladder[3].seconds - s.ladder[5].seconds) / static_cast<double>(128 - s.ladder[5].passes);
  EXPECT_GT(pass, packets_s);
  EXPECT_LT(pass, 1.3 * packets_s);
  EXPECT_LT(s.ladder[5].seconds_low, s.ladder[5].seconds / 2);
  EXPECT_GT(s.ladder[5].seconds_high, 1.3 * s.ladder[5].seconds);
  EXPECT_GT(s.step128_npu_s, s.step128_cpu_s) << "many rows are the CPU's at this packet rate";
  const Simulation matrix_unit = simulate(options("v79-8elite"));
  EXPECT_GT(s.ladder[5].seconds, 5 * matrix_unit.ladder[5].seconds);
}

// With revision the CPU's path is priced: passes of the paper's slow CPU come passes later and delay nothing.
// labels: long
TEST(OwnKernels, TheCpusPathIsPricedAndDelaysNothing) {
  const Simulation paper = simulate(options("sm8750-paper")), own = simulate(options("v79-hvx"));
  EXPECT_GT(paper.ladder[5].lateness, 2);
  EXPECT_EQ(own.ladder[5].lateness, 0) << "there at the end of the pass beside which it ran";
  EXPECT_EQ(own.ladder[5].sparse_passes, own.ladder[5].passes - 1);
  for (const Simulation* s : {&paper, &own})
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(s->ladder[i].sparse_passes, 0) << s->ladder[i].name;
}

// Three of the profile, the CPU's rate where it is a guess, and tokens per pass, which the published times imply.
// labels: long
TEST(NewerChips, TheLeastCertainNumbersHaveARange) {
  for (const std::string& name : profile_names()) {
    const Simulation s = simulate(options(name));
    const auto named = [&](std::string_view path) {
      return std::ranges::count(s.sensitivity, path, &SensitivityRow::path);
    };
    EXPECT_EQ(named(kTokensPerPass), 1) << name;
    EXPECT_EQ(named("cpu.matmul_gflops"), name == "sm8750-paper" ? 0 : 1) << name;
    const bool counted = name == "rtx4060-pcie4";  // there the CPU's rate is one of the three
    ASSERT_EQ(s.sensitivity.size(), name == "sm8750-paper" || counted ? 4u : 5u) << name;
    for (const SensitivityRow& row : s.sensitivity) {
      EXPECT_LT(row.low, row.high) << row.path;
      const double now = s.ladder.back().seconds;
      // How many of the CPU's passes, which share the DRAM, fall into the run depends on the speed too.
      EXPECT_LE(std::min(row.seconds_low, row.seconds_high), now * 1.005) << row.path;
      EXPECT_GE(std::max(row.seconds_low, row.seconds_high), now * 0.995) << row.path;
    }
    for (const auto* lines : {&s.ladder, &s.beside})
      for (const SimulatedLine& line : *lines) {
        // The ends are the last line's; what slows it down may help another a little.
        EXPECT_LE(line.seconds_low, line.seconds * 1.01) << name << line.name;
        EXPECT_GE(line.seconds_high, line.seconds * 0.99) << name << line.name;
      }
  }
}

const SimulatedLine& beside(const Simulation& s, std::string_view name) {
  return *std::ranges::find(s.beside, name, &SimulatedLine::name);
}

// What comes from the decoding and what from the processor: the CPU decodes as the last line does, and computes in line
// with its passes what it would compute beside the NPU's.
// labels: long
TEST(Beside, TheCpuWithTheSameDecodingIsLevelWithVectorKernelsAndFarBehindAMatrixUnit) {
  const Simulation vectors = simulate(options("v79-hvx")), unit = simulate(options("v79-8elite"));
  EXPECT_NEAR(beside(vectors, "CPU, same").seconds, 24, 1.2);
  EXPECT_EQ(beside(vectors, "CPU, same").seconds, beside(unit, "CPU, same").seconds);
  EXPECT_LT(off(beside(vectors, "CPU, same").seconds, vectors.ladder.back().seconds), 0.15);
  EXPECT_GT(beside(unit, "CPU, same").seconds, 5 * unit.ladder.back().seconds);
  // In energy the vector kernels win.
  EXPECT_GT(beside(vectors, "CPU, same").joules_per_token(), 1.5 * vectors.ladder.back().joules_per_token());
  // A token after the other reads the weights once each, 3.93 GiB at 52 GB/s, behind a pass of the prompt. So it takes
  // fewer seconds than diffusion by vector kernels.
  const double reads = 127 * 3.93 * 0x1p30 / 52e9, prompt = vectors.step128_cpu_s * 78 / 128;
  EXPECT_NEAR(beside(vectors, "CPU, one each").seconds, reads + prompt, 0.2 * reads);
  EXPECT_LT(beside(vectors, "CPU, one each").seconds, vectors.ladder.back().seconds);
  EXPECT_GT(beside(unit, "CPU, one each").seconds, 3 * unit.ladder.back().seconds);
}

// No part may be left out for nothing, and none helps where the others are gone.
// labels: long
TEST(Beside, EveryPartOfTheWholeSystemEarnsItsPlaceOnThePapersPhone) {
  const Simulation s = simulate(options("sm8750-paper"));
  const double all = s.ladder.back().seconds;
  for (const char* part : {"- prefix K/V", "- SOMR", "- MBSD", "- revision"})
    EXPECT_GT(beside(s, part).seconds, 1.1 * all) << part;
  EXPECT_EQ(beside(s, "- revision").seconds, s.ladder[4].seconds) << "which is the line + MBSD";
  // Without SOMR every pass waits for the mapping of all layers: 1.99 s of it, as in the line + NPU.
  EXPECT_NEAR(beside(s, "- SOMR").exposed_map_seconds / static_cast<double>(s.ladder.back().passes), 254.1 / 128, 0.02);
}

// Both units work on every product, so a pass takes about the time of their rates together, and the CPU's tiles need no
// window. Beside a matrix unit the CPU would bring less than its exchange costs.
// labels: long
TEST(Beside, ProductsDividedBetweenBothUnitsHalveAPassOfVectorKernels) {
  for (const char* own : {"v79-hvx", "v75-hvx"}) {
    const Simulation s = simulate(options(own));
    const Profile p = *load_profile(own);
    ASSERT_TRUE(s.divided);
    const double npu = p.npu.matmul_gflops.value, cpu = p.cpu.matmul_gflops.value * p.divide->host_rate.value;
    EXPECT_NEAR(s.divided->host_share, cpu / (npu + cpu), 0.05) << own;
    // 6.5 G weights of layers, 128 rows, two operations each; the rest of the pass is the NPU's as before.
    const double products = 2 * 128 * 32 * (4.0 * 4096 * 4096 + 3.0 * 4096 * 12288) / 1e9;
    const double ideal = s.step128_npu_s - products / npu + products / (npu + cpu);
    // Inputs of 4,096 three times and of 12,288 once; outputs of 4,096 five times and of 12,288 twice.
    const double crosses = 32 * 128 * 4 * (24576 + s.divided->host_share * 45056) / 4e9;
    EXPECT_GT(s.divided->step128_s, ideal + crosses) << own;
    EXPECT_LT(s.divided->step128_s, 1.05 * ideal + crosses) << own;
    const SimulatedLine &line = beside(s, "+ CPU's share"), &last = s.ladder.back();
    EXPECT_LT(line.seconds, 0.75 * last.seconds) << own;
    EXPECT_LT(line.seconds, beside(s, "CPU, same").seconds) << own;
    EXPECT_EQ(line.bytes_mapped_per_pass, 0) << "what is left to the NPU fits its window";
    EXPECT_GT(last.bytes_mapped_per_pass, 0);
    EXPECT_GT(line.joules, last.joules);
    EXPECT_LT(line.joules, beside(s, "CPU, same").joules);
  }
  for (const char* unit : {"v79-8elite", "sm8750-paper", "v79-hmx"}) {
    const Simulation s = simulate(options(unit));
    ASSERT_TRUE(s.divided);
    EXPECT_LT(s.divided->host_share, 0.15) << unit;
    EXPECT_LE(beside(s, "+ CPU's share").seconds, s.ladder.back().seconds) << unit;
    EXPECT_GT(beside(s, "+ CPU's share").seconds, 0.85 * s.ladder.back().seconds) << unit;
  }
}

// Nothing was fitted to the published range of 17 to 42: the constants are those of one prompt and one answer.
// labels: long
TEST(SpeedUps, OfThePapersPhoneOverlapThePublishedRange) {
  const std::vector<int64_t> prompts = {32, 78, 512}, gens = {32, 128, 512};
  const auto ups = must(simulate_speed_ups(options("sm8750-paper"), prompts, gens));
  ASSERT_EQ(ups->size(), 9u);
  for (const SpeedUp& up : *ups) {
    EXPECT_GT(up.factor, 17) << up.prompt << " " << up.gen;
    EXPECT_LT(up.factor, 50) << up.prompt << " " << up.gen;
  }
  EXPECT_NEAR((*ups)[4].factor, 606.5 / 16.0, 0.2);
  EXPECT_GT(ups->front().factor, 2 * ups->back().factor) << "long prompts and answers have dear full passes";
  const auto own = must(simulate_speed_ups(options("v79-hvx"), prompts, gens));
  for (const SpeedUp& up : *own) EXPECT_LT(up.factor, 7);
}

// The first pass of a block computes the one before it too, all others 32 rows, and nothing sees what follows.
// labels: long
TEST(BlockCausal, HasALadderOfItsOwn) {
  for (const char* preset : {"llada2-mini:q4_0", "sdar-8b:q4_0"}) {
    SCOPED_TRACE(preset);
    SimulateOptions o = options("v79-8elite");
    o.preset = preset;
    const Simulation s = simulate(o);
    ASSERT_EQ(s.ladder.size(), 5u);
    EXPECT_EQ(s.ladder.back().name, "+ threshold");
    for (const size_t i : {1u, 4u}) EXPECT_LT(s.ladder[i].seconds, s.ladder[i - 1].seconds) << s.ladder[i].name;
    EXPECT_LE(s.ladder[3].seconds, s.ladder[2].seconds) << "the experts of LLaDA2 are the CPU's: nothing is mapped";
    EXPECT_GT(beside(s, "CPU, same").seconds, s.ladder.back().seconds);
  }
  SimulateOptions o = options("v79-8elite");
  o.preset = "llada2-mini:q4_0", o.prompt = 64, o.gen = 64, o.tokens_per_pass = 16;
  const Simulation s = simulate(o);
  // Two blocks of two passes: 96 rows with the prompt, 32; 64 with the block before, 32.
  EXPECT_EQ(s.ladder.back().passes, 4);
  EXPECT_EQ(s.ladder.back().rows_per_pass, (96 + 32 + 64 + 32) / 4.0);
}

// labels: long
TEST(Simulate, RepeatsToTheLastBit) {
  const Simulation a = simulate(options("v75-8gen3")), b = simulate(options("v75-8gen3"));
  for (size_t i = 0; i < a.ladder.size(); ++i) {
    EXPECT_EQ(a.ladder[i].seconds, b.ladder[i].seconds);
    EXPECT_EQ(a.ladder[i].joules, b.ladder[i].joules);
  }
}

// labels: long
TEST(Simulate, MemoryPoliciesDifferInTimeAsTheyShould) {
  SimulateOptions o = options("sm8750-paper");
  const auto seconds = [&](const char* memory) {
    o.memory = memory;
    const auto line = simulate_last_line(o);
    EXPECT_TRUE(line) << memory;
    return line ? line->seconds : 0;
  };
  const double plan = seconds("plan"), lru = seconds("lru"), belady = seconds("belady"), sessions = seconds("sessions"),
               copy = seconds("copy");
  EXPECT_LT(plan, belady) << "Belady's rule maps less but looks nothing up in advance";
  EXPECT_LT(belady, lru);
  EXPECT_NEAR(seconds("drop-all"), lru, 1e-9 * lru);
  EXPECT_LT(sessions, plan * 1.01) << "two windows are the honest rival";
  EXPECT_LT(copy, lru) << "copying beats a slow mapping";
}

// Passes of the CPU's path land when they are done, and no NPU pass waits for them: what they cost is the DRAM that both
// share, however slow the CPU is. A slow one lands fewer passes, later.
// labels: long
TEST(Simulate, ASlowCpuDelaysNoPass) {
  Profile slow = *load_profile("v79-8elite");
  for (Number* rate : {&slow.cpu.matmul_gflops, &slow.cpu.attention_gflops, &slow.cpu.elementwise_gb_per_s})
    rate->value /= 10, rate->low.reset(), rate->high.reset();
  const std::string file = testing::TempDir() + "slow_cpu.json";
  ASSERT_TRUE(write_file(file, profile_text(slow)));
  SimulateOptions o = options("v79-8elite");
  o.replay.assign(60, {.rows = 32, .wanted = 32, .keys = 206});
  o.replay_tokens = 128;
  std::vector<SimulatedLine> dense, beside;
  for (const std::string& profile : {std::string("v79-8elite"), file}) {
    o.profile = profile;
    for (const int32_t sparse : {0, 8}) {
      for (SimulatedPass& pass : o.replay) pass.sparse = pass.sparse_wanted = sparse;
      const auto line = must(simulate_last_line(o));
      (sparse == 0 ? dense : beside).push_back(*line);
    }
  }
  for (size_t i = 0; i < 2; ++i) EXPECT_LT(beside[i].seconds, 1.25 * dense[i].seconds) << i;
  EXPECT_LT(beside[1].seconds - dense[1].seconds, beside[0].seconds - dense[0].seconds + 0.01 * dense[1].seconds)
      << "ten times slower, and no pass waits longer";
  EXPECT_GT(beside[0].sparse_passes, 4 * beside[1].sparse_passes);
  EXPECT_GE(beside[1].lateness, 4 * beside[0].lateness);
  EXPECT_EQ(dense[0].sparse_passes, 0);
  std::filesystem::remove(file);
}

// labels: long
TEST(Simulate, WrongRequestsAreOneLine) {
  struct Case {
    std::function<void(SimulateOptions&)> change;
    std::string says;
  };
  const std::vector<Case> cases = {
      {[](auto& o) { o.profile = "none"; }, "profile: found 'none'"},
      {[](auto& o) { o.preset = "llada-9b"; }, "preset: found 'llada-9b'"},
      {[](auto& o) { o.preset = "llada-8b:q9"; }, "preset: found the type 'q9'"},
      {[](auto& o) { o.gen = 0; }, "gen: found 0 tokens"},
      {[](auto& o) { o.prompt = -1; }, "prompt: found -1 tokens"},
      {[](auto& o) { o.tokens_per_pass = 0; }, "tokens per pass: found 0, needed 0.001953125 to the block's 32"},
      {[](auto& o) { o.tokens_per_pass = 1e-300; }, "tokens per pass: found 1e-300, needed 0.001953125"},
      {[](auto& o) { o.tokens_per_pass = 0.0019; }, "tokens per pass: found 0.0019, needed 0.001953125"},
      {[](auto& o) { o.tokens_per_pass = 33; }, "tokens per pass: found 33"},
      {[](auto& o) { o.tokens_per_pass = NAN; }, "tokens per pass: found nan"},
      {[](auto& o) { o.window_gib = 0.2; }, "window: found 0.2 GiB, needed more than the 0.30 GiB"},
      {[](auto& o) { o.map_variant = "fast"; }, "found no map variant 'fast'"},
      {[](auto& o) { o.memory = "mru"; }, "memory policy: found 'mru'"},
  };
  for (const Case& c : cases) {
    SimulateOptions o = options("v79-8elite");
    c.change(o);
    const auto line = simulate_last_line(o);
    ASSERT_FALSE(line) << c.says;
    EXPECT_EQ(exit_status(line.error()), 2);
    EXPECT_NE(line.error().message.find(c.says), std::string::npos) << line.error().message;
  }
  for (const auto& [from, to, step] : {std::tuple{0.0, 1.0, 0.1}, {2.0, 1.0, 0.1}, {1.0, 2.0, 0.0}, {1.0, 9.0, 1e-5}})
    EXPECT_FALSE(sweep_window(options("v79-8elite"), from, to, step));
}

// The device's own reserve: 2 x 32 layers x 4096 values x 2 bytes per position of K/V, activations in F32, work memory.
// labels: long
TEST(Simulate, LongCanvasesTakeTheirPlaceInTheWindow) {
  SimulateOptions o = options("v79-8elite");
  const Simulation small = simulate(o);
  EXPECT_GT(small.reserve_bytes, 206.0 * 2 * 32 * 4096 * 2);
  EXPECT_LT(small.reserve_bytes, 0.3 * 0x1p30);
  o.prompt = 2000;
  const Simulation large = simulate(o);
  EXPECT_NEAR(small.window_bytes, (3.5 - 0.3) * 0x1p30, 1);
  EXPECT_NEAR(large.window_bytes, 3.5 * 0x1p30 - large.reserve_bytes, 1);
  EXPECT_GT(large.ladder[3].bytes_mapped_per_pass, small.ladder[3].bytes_mapped_per_pass);
}

// labels: long
TEST(Simulate, SpansAreOrderedPerLaneAndDoNotOverlap) {
  const auto spans = must(simulate_spans(options("sm8750-paper")));
  std::map<std::string, double> end;
  for (const SimulatedSpan& span : *spans) {
    EXPECT_GE(span.start_s, end[span.lane] - 1e-9) << span.lane;
    EXPECT_GE(span.end_s, span.start_s);
    end[span.lane] = span.end_s;
  }
  EXPECT_GT(end["npu"], 1.5) << "three passes of 0.63 s";
  EXPECT_GT(end["cpu"], 1.5) << "the head";
  EXPECT_GT(end["map"], 1.0);
}

RecordedStep step_of(std::vector<PositionRange> rows, std::vector<PositionRange> wanted, int32_t keys,
                     int64_t committed) {
  RecordedStep step;
  step.rows = std::move(rows), step.wanted = std::move(wanted), step.keys = keys;
  for (const PositionRange& range : step.wanted)
    for (int32_t p = range.begin; p < range.end; ++p) step.predicted.push_back(7), step.confidence.push_back(0.5);
  const auto edits = static_cast<int32_t>(std::abs(committed));
  for (int32_t e = 0; e < edits; ++e)
    step.edits.push_back({e, 7, committed > 0 ? decode::TokenState::stable : decode::TokenState::masked, 0.5});
  step.committed = committed;
  return step;
}

std::string lines_of(const std::vector<RecordedRun>& runs) {
  std::string text = recording_header("m");
  for (const RecordedRun& run : runs) text += recording_lines(run);
  return text;
}

RecordedRun run_of(std::vector<RecordedStep> steps) {
  return {.strategy = "fast", .options = "", .task = "t", .positions = 200, .steps = std::move(steps)};
}

TEST(Replay, PassesComeFromTheRecording) {
  RecordedStep revised = step_of({{2, 3}, {8, 16}}, {{8, 12}}, 20, -1);
  revised.trials = {{4, 2, 9, 0.5}};
  RecordedStep separate = step_of({{0, 20}}, {}, 20, 5);
  separate.sparse_rows = {{1, 3}};
  separate.sparse_trials = {{5, 1, 9, 0.5}};
  const std::string text = lines_of({run_of({step_of({{0, 20}}, {{8, 20}}, 20, 3), revised}), run_of({separate})});
  const auto first = parse_replay(text, "r", 0), second = parse_replay(text, "r", 1);
  ASSERT_TRUE(first && second) << (first ? second : first).error().message;
  ASSERT_EQ(first->passes.size(), 2u);
  EXPECT_EQ(first->tokens, 2);
  EXPECT_EQ(first->passes[1].rows, 9 + 2);
  EXPECT_EQ(first->passes[1].wanted, 4 + 1);
  EXPECT_EQ(first->passes[1].keys, 20);
  EXPECT_EQ(second->passes[0].sparse, 2 + 1);
  EXPECT_EQ(second->passes[0].sparse_wanted, 1);

  SimulateOptions o = options("v79-8elite");
  o.replay = first->passes;
  o.replay_tokens = first->tokens;
  const auto line = must(simulate_last_line(o));
  EXPECT_EQ(line->name, "recording");
  EXPECT_EQ(line->passes, 2);
  EXPECT_EQ(line->tokens, 2);
  o.replay = second->passes;
  const auto sparse = must(simulate_last_line(o));
  EXPECT_GT(sparse->cpu_seconds, 0.05);
}

TEST(Replay, GuidanceComputesEveryRowTwice) {
  RecordedStep step = step_of({{0, 20}}, {{8, 20}}, 20, 3);
  step.trials = {{4, 2, 9, 0.5}};
  step.sparse_rows = {{1, 3}};
  step.sparse_trials = {{5, 1, 9, 0.5}};
  RecordedRun guided = run_of({step});
  guided.strategy = "g", guided.task = "sort", guided.prompt_tokens = 8, guided.guided = true;
  const auto trace = must(parse_replay(lines_of({run_of({}), guided}), "r", 1));
  EXPECT_EQ(trace->passes[0].rows, 2 * (20 + 2));
  EXPECT_EQ(trace->passes[0].wanted, 12 + 1);
  EXPECT_EQ(trace->passes[0].sparse, 2 * (2 + 1));
  EXPECT_EQ(trace->strategy + " " + trace->task, "g sort");
  EXPECT_EQ(trace->prompt_tokens, 8);
}

// What the reader of recordings lets through and no pass can be.
TEST(Replay, ARunThatIsNotThereOrHasNoRowsIsOneLine) {
  RecordedRun large = run_of({step_of({{0, (1 << 20) + 1}}, {}, 20, 0)});
  large.positions = 1 << 21;
  const std::pair<std::string, std::string> cases[] = {
      {lines_of({}), "r: found 0 runs, needed run 0 (from 0) with steps"},
      {lines_of({run_of({})}), "r: found 1 runs, needed run 0 (from 0) with steps"},
      {lines_of({run_of({step_of({}, {}, 20, 0)})}), "r: run 0, step 0: found 0 rows, needed 1 to 1048576"},
      {lines_of({large}), "r: run 0, step 0: found 1048577 rows"},
      {"{}\n", "r:1: format: is missing"},
  };
  for (const auto& [text, says] : cases) {
    const auto trace = parse_replay(text, "r", 0);
    ASSERT_FALSE(trace) << says;
    EXPECT_EQ(exit_status(trace.error()), 2);
    EXPECT_TRUE(trace.error().message.starts_with(says)) << trace.error().message;
  }
}

}  // namespace
}  // namespace llada
