// Several requests at a time in shared forwards (engine/scheduler.h), at a scripted pace. The pace is that of the
// sampler with a schedule: every forward of a block commits its share of the block's masks, whatever their
// probabilities. So random weights take the forwards of a real model that commits as many.
#pragma once
#include <cstdint>
#include <memory>

#include "engine/model.h"

namespace llada::bench {

struct SharedWork {
  int64_t prompt_tokens = 78, gen_tokens = 128, block_length = 32, tokens_per_step = 5;  // of each request
};

struct SharedResult {
  int64_t requests = 0;
  SharedWork work;
  double seconds = 0;  // median wall clock from the first request's arrival to the last one's end
  double seconds_min = 0, seconds_max = 0;
  int64_t forwards = 0, rows = 0;  // of the median run; rows of all its forwards
  int64_t parts = 0;               // of requests in forwards: as many as forwards where one is alone
  int64_t row_budget = 0;          // of a forward, as the scheduler learned it

  double tokens_per_s() const { return static_cast<double>(requests * work.gen_tokens) / seconds; }
  double rows_per_forward() const { return static_cast<double>(rows) / static_cast<double>(forwards); }
};

// `requests` requests that arrive together, each with a prompt of its own, on the model's device. All positions are
// computed at the start of a block, its own in the forwards after that; of a block-causal model the block's own.
Result<SharedResult> measure_shared(const std::shared_ptr<const Model>& model, const SharedWork& work, int64_t requests,
                                    int repeats);

}  // namespace llada::bench
