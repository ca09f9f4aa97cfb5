// The whole benchmark of one machine and one model, from the machine's ceilings to finished generations.
// Everything is measured wall clock on the machine that runs it; ceilings are measured in the same run.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/gemm.h"
#include "bench/machine.h"
#include "lab/bench/end_to_end.h"
#include "lab/bench/forward.h"
#include "lab/bench/replay.h"
#include "lab/bench/shared.h"
#include "lab/bench/sustained.h"

namespace llada::bench {

// The measurements beside the machine's ceilings, which every report has.
struct Parts {
  bool machine = true, gemm = true, forward = true, attention = true, end_to_end = true;
  bool shared = false;     // takes as long as all the others together, so it is to be asked for
  bool sustained = false;  // takes BenchOptions::minutes
};

struct BenchOptions {
  std::string model;                       // a model file or folder; or
  std::string preset;                      // "llada-8b:q4_0", made in memory
  int64_t layers = 0;                      // of a preset; 0: as published
  int64_t most_layers = 0;                 // of a preset whose `layers` is 0: no more than these; 0: any number
  std::optional<double> router_bias = {};  // of a preset whose routers have selection biases (SynthRequest)
  LoadOptions load;
  std::vector<int64_t> rows = {1, 8, 16, 32, 64, 128};
  std::vector<DType> types;  // of the matrix products
  int repeats = 5;
  int64_t stream_bytes = int64_t{256} << 20;  // of weights behind a product; the read test takes four times it
  int64_t prompt_tokens = 78, gen_length = 128, block_length = 32, tokens_per_step = 5;
  std::vector<int64_t> requests = {1, 2, 4, 8};  // at a time, of the shared forwards
  int64_t minutes = 10;                          // of the sustained work
  int64_t attention_rows = 32, attention_keys = 4096;
  std::string replay;       // a recording: the whole runs follow it in place of a script
  int64_t replay_runs = 3;  // of each strategy of it, nearest to prompt_tokens and gen_length
  bool one_run = false;     // of the whole runs only the first way
  Parts parts;
  // Called before each measurement with its name, the seconds of work so far, and those of all work. The latter are an
  // estimate from the machine's ceilings, made once these are measured (before: 0 of 0) and corrected by later
  // measurements. This hook and the next three may be empty.
  std::function<void(std::string_view name, double done_s, double all_s)> progress;
  // Called when a line of the report is there.
  std::function<void(const struct BenchReport& report)> result;
  // Asked before and within every measurement: true ends it, and the report has the whole measurements so far.
  std::function<bool()> stopped;
  // Called where `stopped` is true while a model is made or loaded, which nothing ends: the program may exit.
  std::function<void()> leave;
};

struct ModelFacts {
  std::string name;    // of the published model
  std::string source;  // path or preset
  int64_t layers = 0, parameters = 0;
  int64_t stored_bytes = 0;   // of all tensors
  int64_t forward_bytes = 0;  // that a forward reads, in the kernels' layout
  double load_seconds = 0;    // to open (or make) and pack; 0 when nothing was loaded
};

struct AttentionResult {
  ForwardResult forward;
  double ms = 0;                  // of the attention ops, median
  double percent_of_forward = 0;  // of the forward over as many keys
};

struct BenchReport {
  Machine machine;
  ModelFacts model;
  std::vector<GemmResult> gemm;
  std::vector<ForwardResult> forward;
  std::vector<AttentionResult> attention;
  std::vector<EndToEndResult> end_to_end;
  std::vector<ReplayResult> replayed;  // by strategy of the recording
  std::vector<SharedResult> shared;    // by BenchOptions::requests
  std::vector<SustainedMinute> sustained;
  int repeats = 0;
  int64_t peak_memory_bytes = 0;  // of the process, with the buffers that the measurements need
  bool interrupted = false;       // by `stopped`: the missing parts were not measured
};

Result<BenchReport> run_bench(const BenchOptions& options);

}  // namespace llada::bench
