// One generation of a model that follows a strategy of ours, whose tokens do not matter.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "decode/denoiser.h"
#include "engine/model.h"

namespace llada::bench {

struct WholeRun {
  double seconds = 0;  // wall clock of the denoising loop, K/V memory and the strategy's creation included
  decode::RunStats stats;
  PhaseTimes phases{};
  int64_t kv_bytes = 0;
};

using MakeStrategy = std::function<Result<std::unique_ptr<decode::Strategy>>(const decode::Canvas& canvas)>;

// Ids below it are ordinary: the special ones come last.
int64_t ordinary_ids(const Model& model);

// The prompt, then gen_tokens masks. An error where `stopped` says so after a step.
Result<WholeRun> run_whole(const Model& model, std::span<const int32_t> prompt, int64_t gen_tokens,
                           const MakeStrategy& make_strategy, const std::function<bool()>& stopped);

}  // namespace llada::bench
