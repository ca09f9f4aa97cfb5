// The text of --device: "cpu", or "sim:PROFILE", with options after commas:
//   window=SIZE    of the NPU: "40%" of its weights, "2.5GiB" with the profile's reserve in it, or
//   "unlimited" map=NAME       which of the profile's prices of mapping memory=POLICY  plan, copy, lru, fifo,
//   drop-all, belady or sessions (plan) grain=GRAIN    slabs of a layer, half-layer or op (the coarsest that
//   fits) head=UNIT      npu or cpu (the profile's) fallback=UNIT  cpu or none: what takes over when the
//   device fails (cpu; none for the device "cpu") fail=FAULT     allocate, map:N, submit:N or gone:N: the
//   device fails on purpose (devices/faulty)
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "devices/device.h"
#include "devices/faulty/faulty_device.h"
#include "devices/sim/sim_device.h"
#include "models/model_graph.h"
#include "sched/memory_runtime.h"
#include "tensor/view.h"

namespace llada {

struct DeviceSpec {
  std::optional<Profile> profile;  // none: the cpu itself
  SimOptions sim;                  // window_bytes is set from `window` once the weights are known
  std::string window;
  MemoryOptions memory;
  bool fallback = false;
  FaultPlan fault;
};

Result<DeviceSpec> parse_device_spec(const std::string& text);

// The device that the spec asks for in front of `cpu`, and the fallback (may be null).
struct OpenedDevice {
  std::unique_ptr<Device> device, fallback;
  MemoryOptions memory;
};
Result<OpenedDevice> open_device(const DeviceSpec& spec, const ModelGraph& graph,
                                 std::span<const TensorView> weights, std::unique_ptr<Device> cpu,
                                 int threads);

}  // namespace llada
