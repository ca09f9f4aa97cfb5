// Devices whose passes beside their steps are late, in front of any other device.
#pragma once
#include <cstdint>
#include <memory>

#include "devices/device.h"

namespace llada {

// Each pass takes up to `most_ms`, as the seed says, on a thread of its own.
std::unique_ptr<Device> make_late_device(std::unique_ptr<Device> device, int most_ms, uint64_t seed);

// A slow processor by an emulated clock: a step takes a second of it, a pass takes `steps`. The clock goes on with the
// steps; whoever waits for a pass before its time lets it go on to the pass's end. EmulatedStats: npu_s are the steps'
// seconds, cpu_s the passes'.
std::unique_ptr<Device> make_slow_host_device(std::unique_ptr<Device> device, int steps);

}  // namespace llada
