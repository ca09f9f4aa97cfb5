// The host processor as a device: kernels of one instruction set, a pool of threads, an arena for
// activations.
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "devices/device.h"

namespace llada {

class PackedWeights;  // devices/cpu/packed_weights.h

struct CpuOptions {
  int threads = 0;               // 0: one per usable physical core
  std::string_view isa;          // "" : the best; else a kernel table's name
  bool exact_attention = false;  // no digests: attention over many keys in floats too, several times slower
  // Packs weights only in HostUnit::load() or in the first run that reads them. For the host of an accelerator with a
  // copy of its own: it computes little or nothing as long as the accelerator works.
  bool when_needed = false;
  // Weights that were packed for the same instruction set, which is checked; null: all are packed here.
  std::shared_ptr<const PackedWeights> packed = nullptr;
};

// weights[i] belongs to infos[i]. Quantized matrices are packed into the kernels' layout one after the other, each in
// parallel. So an owner who makes and drops stored bytes by the hooks never holds two of them. With when_needed the
// stored bytes and the hooks must stay valid as long as the device or one that shares with it lives.
Result<std::unique_ptr<Device>> make_cpu_device(const CpuOptions& options, std::span<const WeightInfo> infos,
                                                std::span<const TensorView> weights, const WeightHooks& hooks);

// The device's info without a model.
Result<DeviceInfo> describe_cpu(const CpuOptions& options);

}  // namespace llada
