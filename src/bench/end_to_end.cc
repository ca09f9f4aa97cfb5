#include "bench/end_to_end.h"

#include <algorithm>

#include "base/random.h"
#include "bench/machine.h"
#include "decode/canvas.h"
#include "decode/denoiser.h"
#include "engine/model_runner.h"

namespace llada::bench {
namespace {

struct OneRun {
  double seconds = 0;
  decode::RunStats stats;
  PhaseTimes phases{};
  int64_t kv_bytes = 0;
};

Result<OneRun> run_once(const Model& model, const Script& script, std::span<const int32_t> prompt, int64_t gen_tokens,
                        const std::function<bool()>& stopped) {
  OneRun run;
  Device& device = model.device();
  const decode::SpecialIds& ids = model.special_ids();
  device.take_phase_times();
  const double begin = now_s();
  decode::Canvas canvas = decode::lay_generation(prompt, gen_tokens, ids);
  LLADA_TRY(const auto strategy, paced_strategy(script, canvas, ids));
  LLADA_TRY(auto runner,
            SingleRunner::create(model, device, canvas.size(), false, decode::head_rule({}, ids), nullptr));
  const auto goes_on = [&](const decode::StepEvent&) { return !stopped || !stopped(); };
  LLADA_TRY(run.stats, decode::denoise(canvas, *strategy, *runner, goes_on));
  if (run.stats.cancelled) return failed("bench: stopped");
  run.seconds = now_s() - begin;
  run.phases = device.take_phase_times();
  run.kv_bytes = runner->state().kv.bytes();
  return run;
}

}  // namespace

Result<EndToEndResult> measure_end_to_end(const Model& model, const Script& script, int64_t prompt_tokens,
                                          int64_t gen_tokens, int repeats, const std::function<bool()>& stopped) {
  if (script.tokens_per_step < 1 || script.block_length < 1 || gen_tokens < 1 || prompt_tokens < 1)
    return invalid("bench: found {} prompt tokens, {} to generate, blocks of {}, {} per step; needed 1 or more",
                   prompt_tokens, gen_tokens, script.block_length, script.tokens_per_step);
  std::vector<int32_t> prompt;
  const int64_t plain = model.config().vocab / 2;  // ordinary tokens: the special ones come last
  for (int64_t i = 0; i < prompt_tokens; ++i)
    prompt.push_back(static_cast<int32_t>(uniform(23, 0, static_cast<uint64_t>(i), 0) * static_cast<double>(plain)));

  std::vector<OneRun> runs;
  for (int i = 0; i < repeats; ++i) {
    LLADA_TRY(auto run, run_once(model, script, prompt, gen_tokens, stopped));
    runs.push_back(std::move(run));
  }
  std::ranges::sort(runs, {}, &OneRun::seconds);
  const OneRun& middle = runs[runs.size() / 2];
  return EndToEndResult{.prompt_tokens = prompt_tokens,
                        .gen_tokens = gen_tokens,
                        .script = script,
                        .seconds = middle.seconds,
                        .seconds_min = runs.front().seconds,
                        .seconds_max = runs.back().seconds,
                        .forwards = middle.stats.nfe,
                        .full_forwards = middle.stats.full_forwards,
                        .rows = middle.stats.rows,
                        .logit_rows = middle.stats.logit_rows,
                        .left_rows = middle.stats.left_rows,
                        .phase_ms = middle.phases,
                        .kv_bytes = middle.kv_bytes};
}

}  // namespace llada::bench
