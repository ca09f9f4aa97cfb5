// The measured costs of computing and moving an expert on this machine, for the planner; measured when a model is
// opened.
#pragma once
#include <array>

#include "devices/cuda/expert_run.h"

namespace llada::cuda {

struct ExpertsOnGpu {
  const Weights* weights;
  const CudaExperts& experts;
  std::array<int64_t, 3> piece_bytes;
  uint8_t* slot_memory;  // of the experts' slots, which nobody uses meanwhile
  ExpertSlots::Source source;
  bool tensor_cores = false;  // for types that have kernels for them
};

// Wall clock, in seconds and bytes. `op`: any experts op of the model. `behind`: the host's device, of which a share
// measures. Call it while nothing else runs.
Result<ExpertCosts> measure_expert_costs(const ExpertsOnGpu& gpu, const Op& op, const Device& behind, ExpertRun& run,
                                         cudaStream_t stream);

}  // namespace llada::cuda
