// Whole generations at a scripted pace.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "engine/model.h"
#include "lab/bench/scripted_strategy.h"
#include "lab/bench/whole_run.h"

namespace llada::bench {

struct EndToEndResult {
  int64_t prompt_tokens = 0, gen_tokens = 0;
  Script script;
  double seconds = 0;  // median wall clock of the denoising loop, K/V memory included
  double seconds_min = 0, seconds_max = 0;
  int64_t forwards = 0, full_forwards = 0, rows = 0, logit_rows = 0;
  std::array<double, kOpKindCount> phase_ms{};  // of the median run
  int64_t kv_bytes = 0;
  AutoregressionBound bound;
};

// Random ordinary tokens, other ones for each `number`.
std::vector<int32_t> random_prompt(const Model& model, int64_t tokens, uint64_t number = 0);

// Measures runs of prompt_tokens random tokens and gen_tokens masks behind them.
Result<EndToEndResult> measure_end_to_end(const Model& model, const Script& script, int64_t prompt_tokens,
                                          int64_t gen_tokens, int repeats, const RunSettings& settings = {});

}  // namespace llada::bench
