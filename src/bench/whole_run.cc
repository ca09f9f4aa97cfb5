#include "bench/whole_run.h"

#include "bench/machine.h"
#include "decode/canvas.h"
#include "engine/model_runner.h"

namespace llada::bench {

int64_t ordinary_ids(const Model& model) { return model.config().vocab / 2; }

Result<WholeRun> run_whole(const Model& model, std::span<const int32_t> prompt, int64_t gen_tokens,
                           const MakeStrategy& make_strategy, const std::function<bool()>& stopped,
                           const std::function<void(int64_t tokens)>& stepped) {
  WholeRun run;
  Device& device = model.device();
  const decode::SpecialIds& ids = model.special_ids();
  device.take_phase_times();
  const double begin = now_s();
  decode::Canvas canvas = decode::lay_generation(prompt, gen_tokens, ids);
  LLADA_TRY(const auto strategy, make_strategy(canvas));
  LLADA_TRY(auto runner,
            SingleRunner::create(model, device, canvas.size(), false, decode::head_rule({}, ids), nullptr));
  const auto goes_on = [&](const decode::StepEvent& event) {
    if (event.step == 0) run.first_seconds = now_s() - begin, run.first_tokens = std::ssize(event.edits);
    if (stepped) stepped(std::ssize(event.edits));
    return !stopped || !stopped();
  };
  LLADA_TRY(run.stats, decode::denoise(canvas, *strategy, *runner, goes_on));
  if (run.stats.cancelled) return failed("bench: stopped");
  run.seconds = now_s() - begin;
  run.phases = device.take_phase_times();
  run.kv_bytes = runner->state().kv.bytes();
  return run;
}

}  // namespace llada::bench
