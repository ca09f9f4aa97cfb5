// A device whose passes beside its steps take as long as a seed says: up to `most_ms` each, on a thread of its own.
#pragma once
#include <cstdint>
#include <memory>

#include "devices/device.h"

namespace llada {

std::unique_ptr<Device> make_late_device(std::unique_ptr<Device> device, int most_ms, uint64_t seed);

}  // namespace llada
