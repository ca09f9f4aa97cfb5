// An NVIDIA GPU as a device, beside a given host device. The host computes side passes and the experts that the GPU
// does not hold, and takes over when the GPU fails. Weights stay quantized in device memory, activations are there. K/V
// is written to both memories and read from the GPU's (docs/cuda.md).
//
// One GPU, the first that the driver shows (CUDA_VISIBLE_DEVICES chooses). Deliberately absent: several GPUs, weights
// of a dense model streamed through a window.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "devices/device.h"
#include "devices/experts.h"

namespace llada {

// Experts of which the GPU holds some, in slots that all layers share.
struct CudaExperts {
  int32_t first_layer = 0;  // of the program that has experts
  int32_t layers = 0, experts = 0;
  int64_t slots = 0;    // residents
  int32_t buffer = 4;   // moved ahead on a guess
  int32_t staging = 8;  // passing through
};

struct CudaOptions {
  int64_t budget_bytes = -1;  // device memory for everything; -1: all that the GPU has
  std::optional<CudaExperts> experts = {};
  // A step that must fit beside the weights, and the bytes of its K/V; null: not checked.
  std::shared_ptr<const Program> step = {};
  int64_t kv_bytes = 0;
  bool tensor_products = false;  // on tensor cores, of types that have kernels for them; compute capability 8.0
};

class CudaDevice : public Device, public ExpertHost {
 public:
  // Wall clock of this machine, for the planner; `op` is any experts op of the model. Call it while nothing else runs.
  virtual Result<ExpertCosts> measure_experts(const Op& op) = 0;
  virtual int64_t moved_expert_bytes() const = 0;
  virtual int64_t device_memory_bytes() const = 0;  // of the budget, by all devices that share
};

// weights[i] belongs to infos[i] and must stay readable as long as the device or one that shares with it lives: experts
// are copied from there. host: a device over the same weights that runs any op and can be a HostUnit.
Result<std::unique_ptr<CudaDevice>> make_cuda_device(const CudaOptions& options, std::span<const WeightInfo> infos,
                                                     std::span<const TensorView> weights, std::unique_ptr<Device> host,
                                                     const WeightHooks& hooks = {});

// The GPU found here, for a listing; the error says why the GPU is not usable, without naming the device.
Result<std::string> describe_cuda();

}  // namespace llada
