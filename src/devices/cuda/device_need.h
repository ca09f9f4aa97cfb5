// Checks before a weight is read that device memory is enough, by upper bounds on a step's memory from its program.
#pragma once
#include <cstdint>
#include <span>

#include "devices/cuda/cuda_device.h"
#include "devices/cuda/runtime.h"
#include "graph/program.h"

namespace llada::cuda {

// Memory beside weights, slots of experts and K/V: activations, scratch of products and of the head, the step's own
// lists.
int64_t step_bytes(const Program& program, std::span<const WeightInfo> infos);

// Failed: one line with the bytes needed and available. weights, slots: their bytes; the step is that of the options.
Status check_need(const Memory& memory, const CudaOptions& options, std::span<const WeightInfo> infos, int64_t weights,
                  int64_t slots);

}  // namespace llada::cuda
