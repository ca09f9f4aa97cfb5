// Whether device memory is enough, told before a weight is read: upper limits of what a step takes, from its program.
#pragma once
#include <cstdint>
#include <span>

#include "devices/cuda/cuda_device.h"
#include "devices/cuda/runtime.h"
#include "graph/program.h"

namespace llada::cuda {

// Beside weights, slots of experts and K/V: activations, what products and the head work with, the step's own lists.
int64_t step_bytes(const Program& program, std::span<const WeightInfo> infos);

// One line of what is needed and what is there. weights, slots: bytes; of a step as the options say.
Status check_need(const Memory& memory, const CudaOptions& options, std::span<const WeightInfo> infos, int64_t weights,
                  int64_t slots);

}  // namespace llada::cuda
