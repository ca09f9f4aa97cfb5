// A step of eight tokens on a small model (small_model.h), of which two rows' logits are wanted.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "devices/device.h"
#include "one_stream.h"

namespace llada {

inline OneStream eight_tokens() { return step_of({3, 1, 4, 1, 5, 9, 2, 6}, ascending(0, 8), {2, 5}); }

// The logits, by a program for plain_shape(8, 2) that is submitted in runs of so many ops.
inline std::vector<float> logits_of_eight_tokens(Device& device, const std::shared_ptr<const Program>& program,
                                                 size_t ops_per_run) {
  KvStore kv = std::move(*KvStore::create(
      {.layers = 3, .sequences = 1, .kv_heads = 4, .head_dim = 16, .positions = 8, .type = DType::F16}));
  const StepInputs in = eight_tokens().over(kv);
  StepOutputs out;
  const size_t ops = program->ops.size();
  for (size_t first = 0; first < ops; first += ops_per_run) {
    const auto ticket = device.submit({.program = program,
                                       .first = first,
                                       .last = std::min(ops, first + ops_per_run),
                                       .inputs = &in,
                                       .outputs = &out});
    EXPECT_TRUE(ticket) << ticket.error().message;
    if (ticket && first + ops_per_run >= ops) {
      EXPECT_TRUE(device.wait(*ticket));
    }
  }
  return out.logits.at(0);
}

}  // namespace llada
