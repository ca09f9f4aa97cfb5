// The host processor as a device: kernels of one instruction set, a pool of threads, an arena for
// activations.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "devices/device.h"

namespace llada {

struct CpuOptions {
  int threads = 0;       // 0: one per usable physical core
  std::string_view isa;  // "" : the best; else a kernel table's name
};

// weights[i] belongs to infos[i]. Quantized matrices are packed into the kernels' layout, in parallel;
// `packed(i)` is called when the stored bytes of weight i are no longer needed, so that the owner can let go
// of their pages.
Result<std::unique_ptr<Device>> make_cpu_device(const CpuOptions& options, std::span<const WeightInfo> infos,
                                                std::span<const TensorView> weights,
                                                const std::function<void(size_t)>& packed);

// For a listing without a model.
Result<DeviceInfo> describe_cpu(const CpuOptions& options);

}  // namespace llada
