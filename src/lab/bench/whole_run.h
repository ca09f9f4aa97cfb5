// One generation of a model that follows a strategy of ours, whose tokens do not matter.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "decode/denoiser.h"
#include "engine/model.h"

namespace llada::bench {

// The bound of autoregression with the same weights: each of its tokens reads the bytes that one row passes. Runs that
// decide several tokens per forward are held against it, as they are and without their first forward, which computes
// the prompt: the bound counts no prompt.
struct AutoregressionBound {
  double bytes_per_token = 0;  // in the kernels' layout (ForwardWork::bytes_read(1))
  double read_gb_per_s = 0;    // median of the machine's readings just before the runs
  double first_seconds = 0;    // of the runs that were measured, their first forwards
  int64_t first_tokens = 0;    // decided in these

  double tokens_per_s() const { return bytes_per_token > 0 ? read_gb_per_s * 1e9 / bytes_per_token : 0; }
  double ratio(double tokens, double seconds) const { return over(tokens / seconds); }
  double ratio_without_first(double tokens, double seconds) const {
    return over((tokens - static_cast<double>(first_tokens)) / (seconds - first_seconds));
  }

 private:
  double over(double rate) const { return tokens_per_s() > 0 ? rate / tokens_per_s() : 0; }
};

// Settings of a measurement of whole runs; each may be left out.
struct RunSettings {
  double bytes_per_token = 0;             // of the bound
  std::function<double()> read_gb_per_s;  // just before each run
  std::function<bool()> stopped;          // asked after every step; true ends the run with an error
};

struct WholeRun {
  double seconds = 0;        // wall clock of the denoising loop, K/V memory and the strategy's creation included
  double first_seconds = 0;  // of them, until the first forward's tokens were there
  int64_t first_tokens = 0;  // positions that it decided
  decode::RunStats stats;
  PhaseTimes phases{};
  int64_t kv_bytes = 0;
};

using MakeStrategy = std::function<Result<std::unique_ptr<decode::Strategy>>(const decode::Canvas& canvas)>;

// The number of ordinary ids, which come before the special ones.
int64_t ordinary_ids(const Model& model);

// Runs a canvas of the prompt and gen_tokens masks. Fails where `stopped` is true after a step. stepped: called after
// each step with the number of tokens that it decided.
Result<WholeRun> run_whole(const Model& model, std::span<const int32_t> prompt, int64_t gen_tokens,
                           const MakeStrategy& make_strategy, const std::function<bool()>& stopped,
                           const std::function<void(int64_t tokens)>& stepped = {});

}  // namespace llada::bench
