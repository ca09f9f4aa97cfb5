// Opens the device that a DeviceSpec asks for. The cpu device is made here: as the device itself, or as the host beside
// another one, which is given it.
#pragma once
#include <memory>
#include <optional>
#include <span>

#include "devices/cpu/cpu_device.h"
#include "engine/device_spec.h"
#include "models/model_graph.h"
#include "tensor/view.h"

namespace llada {

struct OpenedDevice {
  std::unique_ptr<Device> device, fallback;  // over the same weights; the fallback may be null
  std::optional<ExpertCosts> expert_costs;   // measured, of a device that has experts to move
  MemoryOptions memory;
};

// cpu: of the host; whether it packs all weights now is decided here. hooks: kept as long as the device lives.
Result<OpenedDevice> open_device(const DeviceSpec& spec, CpuOptions cpu, const ModelGraph& graph,
                                 std::span<const TensorView> weights, const WeightHooks& hooks);

}  // namespace llada
