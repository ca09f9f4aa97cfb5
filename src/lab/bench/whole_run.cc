#include "lab/bench/whole_run.h"

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
  LLADA_TRY(auto strategy, make_strategy(canvas));
  LLADA_TRY(auto state, RequestState::create(model, device, canvas.size(), false, decode::head_rule({}, ids)));
  ModelRunner runner(model, device, nullptr, {});
  decode::Denoiser denoiser(std::move(canvas), std::move(strategy));
  while (!denoiser.done()) {
    RequestStep step{&denoiser, &state};
    runner.run({&step, 1});
    LLADA_TRY_STATUS(step.status);
    LLADA_TRY(const decode::StepEvent event, denoiser.take(std::move(step.result)));
    if (event.step == 0) run.first_seconds = now_s() - begin, run.first_tokens = std::ssize(event.edits);
    if (stepped) stepped(std::ssize(event.edits));
    if (stopped && stopped()) return failed("bench: stopped");
  }
  run.stats = denoiser.stats();
  run.seconds = now_s() - begin;
  run.phases = device.take_phase_times();
  run.kv_bytes = state.kv.bytes();
  return run;
}

}  // namespace llada::bench
