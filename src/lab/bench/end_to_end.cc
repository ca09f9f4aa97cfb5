#include "lab/bench/end_to_end.h"

#include <algorithm>

#include "base/random.h"
#include "bench/machine.h"

namespace llada::bench {

std::vector<int32_t> random_prompt(const Model& model, int64_t tokens, uint64_t number) {
  std::vector<int32_t> prompt;
  const auto plain = static_cast<double>(ordinary_ids(model));
  for (int64_t i = 0; i < tokens; ++i)
    prompt.push_back(static_cast<int32_t>(uniform(23, number, static_cast<uint64_t>(i), 0) * plain));
  return prompt;
}

Result<EndToEndResult> measure_end_to_end(const Model& model, const Script& script, int64_t prompt_tokens,
                                          int64_t gen_tokens, int repeats, const RunSettings& settings) {
  if (script.tokens_per_step < 1 || script.block_length < 1 || gen_tokens < 1 || prompt_tokens < 1)
    return invalid("bench: found {} prompt tokens, {} to generate, blocks of {}, {} per step; needed 1 or more",
                   prompt_tokens, gen_tokens, script.block_length, script.tokens_per_step);
  const std::vector<int32_t> prompt = random_prompt(model, prompt_tokens);
  const auto paced = [&](const decode::Canvas& canvas) { return std::make_unique<ScriptedStrategy>(script, canvas); };
  std::vector<WholeRun> runs;
  std::vector<double> readings;
  for (int i = 0; i < repeats; ++i) {
    if (settings.read_gb_per_s) readings.push_back(settings.read_gb_per_s());
    LLADA_TRY(auto run, run_whole(model, prompt, gen_tokens, paced, settings.stopped));
    runs.push_back(std::move(run));
  }
  std::ranges::sort(runs, {}, &WholeRun::seconds);
  const WholeRun& middle = runs[runs.size() / 2];
  return EndToEndResult{
      .prompt_tokens = prompt_tokens,
      .gen_tokens = gen_tokens,
      .script = script,
      .seconds = middle.seconds,
      .seconds_min = runs.front().seconds,
      .seconds_max = runs.back().seconds,
      .forwards = middle.stats.nfe,
      .full_forwards = middle.stats.full_forwards,
      .rows = middle.stats.rows,
      .logit_rows = middle.stats.logit_rows,
      .phase_ms = middle.phases,
      .kv_bytes = middle.kv_bytes,
      .bound = {settings.bytes_per_token, median(readings), middle.first_seconds, middle.first_tokens}};
}

}  // namespace llada::bench
