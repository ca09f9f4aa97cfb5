// In place of the cuda device where the build found no nvcc, or was told to leave it out.
#include "devices/cuda/cuda_device.h"

namespace llada {
namespace {

constexpr const char* kAbsent =
    "not usable: this build has no CUDA code, because nvcc was missing or LLADA_CUDA was OFF";

}  // namespace

Result<std::unique_ptr<CudaDevice>> make_cuda_device(const CudaOptions&, std::span<const WeightInfo>,
                                                     std::span<const TensorView>, std::unique_ptr<Device>,
                                                     const WeightHooks&) {
  return invalid("cuda: {}", kAbsent);
}
Result<std::string> describe_cuda() { return invalid("{}", kAbsent); }

}  // namespace llada
