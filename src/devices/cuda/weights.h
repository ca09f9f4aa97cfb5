// A model's weights in device memory, as stored; vectors as floats. Immutable after loading, shared by devices.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "devices/cuda/kernels.h"
#include "devices/cuda/runtime.h"
#include "devices/device.h"
#include "graph/program.h"
#include "tensor/view.h"

namespace llada::cuda {

struct Weights {
  std::shared_ptr<Memory> memory;
  std::vector<WeightInfo> infos;
  std::vector<TensorView> views;      // where they are stored
  std::vector<Matrix> matrices;       // data null: not on the device (an expert that is moved)
  std::vector<const float*> vectors;  // null: no vector
  DeviceBytes slab;
  DeviceBytes pointers;  // const uint8_t* of every weight, so that a layer's experts are a stretch of it

  const uint8_t* const* table(WeightId first) const {
    return reinterpret_cast<const uint8_t* const*>(pointers.data()) + first;
  }
};

// The bytes of device memory that load_weights() takes. without_experts: experts stay on the host. Both refuse types
// that have no kernels.
Result<int64_t> weight_bytes(std::span<const WeightInfo> infos, std::span<const TensorView> views,
                             bool without_experts);
Result<std::shared_ptr<const Weights>> load_weights(std::shared_ptr<Memory> memory, std::span<const WeightInfo> infos,
                                                    std::span<const TensorView> views, bool without_experts,
                                                    const WeightHooks& hooks);

}  // namespace llada::cuda
