#include "lab/bench/shared.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "bench/machine.h"
#include "engine/scheduler.h"
#include "lab/bench/end_to_end.h"

namespace llada::bench {
namespace {

decode::DecodeOptions options_of(const SharedWork& work, bool block_causal) {
  decode::DecodeOptions options;
  options.gen_length = work.gen_tokens;
  options.block_length = work.block_length;
  options.steps = 0;
  for (int64_t at = 0; at < work.gen_tokens; at += work.block_length)
    options.steps +=
        (std::min(work.block_length, work.gen_tokens - at) + work.tokens_per_step - 1) / work.tokens_per_step;
  options.kv = block_causal ? decode::KvChoice::block : decode::KvChoice::dual;
  options.early_stop = decode::EarlyStop::none;  // an end token of random weights ends nothing
  return options;
}

struct SharedRun {
  double seconds = 0;
  SchedulerStats stats;
  int64_t row_budget = 0;
};

Result<SharedRun> run_once(const std::shared_ptr<const Model>& model, const std::vector<Request>& requests) {
  SharedRun run;
  LLADA_TRY(const auto scheduler, Scheduler::create(model, {}));
  std::optional<Error> error;
  const double begin = now_s();
  for (const Request& request : requests) {
    LLADA_TRY(const Ready ready, prepare(*model, request));
    LLADA_TRY([[maybe_unused]] const auto id, scheduler->add(ready, {}, [&](Result<Generation> ended) {
      if (!ended) error = std::move(ended.error());
    }));
  }
  while (!scheduler->idle()) scheduler->run_forward();
  run.seconds = now_s() - begin;
  if (error) return std::unexpected(std::move(*error));
  run.stats = scheduler->stats();
  run.row_budget = scheduler->row_budget();
  return run;
}

}  // namespace

Result<SharedResult> measure_shared(const std::shared_ptr<const Model>& model, const SharedWork& work, int64_t requests,
                                    int repeats) {
  if (work.tokens_per_step < 1 || work.block_length < 1 || work.gen_tokens < 1 || work.prompt_tokens < 1)
    return invalid("bench: found {} prompt tokens, {} to generate, blocks of {}, {} per step; needed 1 or more",
                   work.prompt_tokens, work.gen_tokens, work.block_length, work.tokens_per_step);
  std::vector<Request> all(static_cast<size_t>(requests));
  for (size_t r = 0; r < all.size(); ++r) {
    all[r].tokens = random_prompt(*model, work.prompt_tokens, r);
    all[r].options = options_of(work, model->special_ids().attention_block > 0);
  }
  std::vector<SharedRun> runs;
  for (int i = 0; i < repeats; ++i) {
    LLADA_TRY(const auto run, run_once(model, all));
    runs.push_back(run);
  }
  std::ranges::sort(runs, {}, &SharedRun::seconds);
  const SharedRun& middle = runs[runs.size() / 2];
  return SharedResult{.requests = requests,
                      .work = work,
                      .seconds = middle.seconds,
                      .seconds_min = runs.front().seconds,
                      .seconds_max = runs.back().seconds,
                      .forwards = middle.stats.forwards,
                      .rows = middle.stats.rows,
                      .parts = middle.stats.parts,
                      .row_budget = middle.row_budget};
}

}  // namespace llada::bench
