// The time on a phone, priced without numerics. The forward of a preset's geometry runs through the executor and the
// memory runtime on a dry sim device, pass after pass, as it would with weights. Everything here is modelled; the
// profile (study/sim/profile.h) says what the numbers rest on.
//
// Words: line = one configuration of a ladder; pass = one forward; full pass = one over prompt and answer, at
// the start of each block; the other passes compute the current block.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada {

// How long a run takes to think: the rows of every pass and how many tokens came of it.
struct SimulatedPass {
  int32_t rows = 0;    // computed
  int32_t wanted = 0;  // of them with logits
  int32_t keys = 0;    // positions attended to
  // The sparse path: rows of a pass that the CPU begins beside this one, where none is under way.
  int32_t sparse = 0, sparse_wanted = 0;
  bool encode = false;  // keys and values of text that is finished, of a model that encodes it in a way of its own
};

struct SimulateOptions {
  std::string profile;  // name or file
  std::string preset = "llada-8b:q4_0";
  int64_t prompt = 78, gen = 128;
  std::string map_variant;                // empty: the profile's default
  std::optional<double> window_gib;       // before the reserve; overrides the profile's
  std::string memory;                     // policy of the lines with a planned memory; empty: "plan"
  std::optional<double> tokens_per_pass;  // of the last line; of a model with canvases of all
  std::vector<SimulatedPass> replay;      // passes of the last line, from a trace; empty: from tokens_per_pass
  int64_t replay_tokens = 0;              // that those passes committed
};

struct SimulatedLine {
  std::string name;
  double seconds = 0;
  // With the profile's least certain numbers together at the ends that make the last line fastest and slowest.
  double seconds_low = 0, seconds_high = 0;
  int64_t passes = 0, tokens = 0;
  double rows_per_pass = 0;
  double joules = 0, joules_low = 0, joules_high = 0;       // at the same ends
  double bytes_mapped_per_pass = 0, lower_bound_bytes = 0;  // both of the NPU's weights
  double maps_per_pass = 0;
  double map_seconds = 0, exposed_map_seconds = 0;  // mapping in all, and the part of it that nothing hid
  double npu_seconds = 0, cpu_seconds = 0;          // lanes at work
  int64_t sparse_passes = 0;                        // of the CPU's path, that landed
  double lateness = 0;                              // their mean, in passes
  double joules_per_token() const { return tokens > 0 ? joules / static_cast<double>(tokens) : 0; }
  double tokens_per_pass() const { return passes > 0 ? static_cast<double>(tokens) / static_cast<double>(passes) : 0; }
};

struct SimulatedSpan {
  std::string lane, name;
  double start_s = 0, end_s = 0;
};

struct SensitivityRow {
  std::string path, unit, source;  // path: of the profile's number, or kTokensPerPass
  char trust = 'I';
  double value = 0, low = 0, high = 0;
  double seconds_low = 0, seconds_high = 0;  // of the last line
};

inline constexpr std::string_view kTokensPerPass = "tokens per pass";

struct Simulation {
  std::string profile, description, preset;
  int64_t gen = 0;  // tokens of every line but a recording
  std::vector<SimulatedLine> ladder;
  // Lines to compare the last one with: the CPU with the same decoding, and one token after the other on CPU and NPU.
  // Then come the lines of the whole system without one of its parts, and of it with products divided between both
  // units where the profile says what that takes (study/sim/divided.h). Empty for a model whose answers are canvases of
  // random tokens.
  std::vector<SimulatedLine> beside;
  size_t somr = 0;                              // the first line with a planned memory; the one before it has none
  double step128_cpu_s = 0, step128_npu_s = 0;  // one pass of 128 rows, logits as in the ladder
  // With divided products: the same pass, the CPU's part of all their multiply-adds (0: it would save nothing), and the
  // bytes of weights that the NPU reads in a pass. Absent where the profile does not say.
  struct Divided {
    double step128_s = 0, host_share = 0, weight_bytes = 0;
  };
  std::optional<Divided> divided;
  double weight_bytes = 0;   // that the NPU reads in a pass
  double window_bytes = -1;  // for weights, -1: unlimited
  double reserve_bytes = 0;  // beside the weights in a full pass (devices/hexagon/reserve.h)
  std::string rival;
  double rival_seconds = 0;  // 0: none known
  std::vector<SensitivityRow> sensitivity;
  // Share of the third line's time that the fourth saves, where mapping costs the least and the most that the
  // profile thinks possible; absent where nothing is mapped.
  std::optional<double> somr_saving_low, somr_saving_high;
};

// The lines of the published ablation: CPU, + prefix K/V, + NPU, + SOMR, + MBSD, + revision. The first four commit one
// token per pass. The fifth and sixth take the tokens per pass that the published times imply at the fourth line's time
// per pass: 128 / 103.5 and 128 / 15.2. A number may replace the last one. So may a recorded run, which then is the
// line "recording", of its own prompt and number of tokens. A part that is left out takes its tokens per pass with it:
// without MBSD a pass commits 103.5 / 128 of them.
//
// A block-causal model (LLaDA2, SDAR) has "+ threshold" in the place of the last two, with the tokens per pass that
// LLaDA2.0-mini is published with (2.6; arXiv 2512.15745). Its first pass of a block computes the block before it
// once more, so that K/V is final. A model whose answers are canvases of random tokens (DiffusionGemma) has three
// lines, CPU, + NPU and + SOMR. Its canvases take the 48 steps that it is published with where nothing else is asked
// for, and tokens fill whole canvases.
Result<Simulation> simulate_ladder(const SimulateOptions& options);

// How much faster the last line is than the CPU with prefix K/V, for prompts and answers of several lengths. The
// published range is 17 to 42 (arXiv 2606.13740, abstract), of lengths that the abstract does not name.
struct SpeedUp {
  int64_t prompt = 0, gen = 0;
  double factor = 0;
};
Result<std::vector<SpeedUp>> simulate_speed_ups(const SimulateOptions& options, std::span<const int64_t> prompts,
                                                std::span<const int64_t> gens);

// Names of the built-in profiles.
std::vector<std::string> profile_names();

// The last line alone.
Result<SimulatedLine> simulate_last_line(const SimulateOptions& options);

// Seconds of one pass of each number of rows in steady state, with logits of all of them or of most_logits. It is the
// table for a strategy that fills free rows of a step.
Result<std::vector<double>> simulate_latency(const SimulateOptions& options, std::span<const int32_t> rows,
                                             std::optional<int32_t> most_logits = {});

// One row per window: the last line, and the bytes per pass of every memory policy.
struct SweepRow {
  double window_gib = 0;
  SimulatedLine line;  // one token per pass, memory as asked for
  double lower_bound_bytes = 0;
  // The time that no plan can hide, of the whole line. Weights that the window cannot hold when a pass begins must be
  // mapped between its first and its last op on the NPU, and hide behind nothing else.
  double least_exposed_s = 0;
  std::vector<std::pair<std::string, double>> policy_bytes;  // bytes per pass
  std::string error;                                         // the window is too small; then the rest is empty
};
Result<std::vector<SweepRow>> sweep_window(const SimulateOptions& options, double from, double to, double step);

// Spans of the lanes for three block passes of the fourth line (SOMR), in steady state.
Result<std::vector<SimulatedSpan>> simulate_spans(const SimulateOptions& options);

// One run of a recording of `llada eval --record` (recording.h).
struct ReplayTrace {
  std::vector<SimulatedPass> passes;
  int64_t tokens = 0;          // that they committed
  std::string strategy, task;  // of the run
  int64_t prompt_tokens = 0;
  int64_t streams = 1;  // 2 with guidance: every row is computed twice, which `passes` counts
};
Result<ReplayTrace> read_replay(const std::string& path, int64_t run);  // run counts from 0
Result<ReplayTrace> parse_replay(std::string_view text, const std::string& origin, int64_t run);

}  // namespace llada
