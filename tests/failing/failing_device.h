// A device that fails on purpose, in front of any other: what an engine must survive when a driver runs out
// of memory, refuses a mapping, rejects work, or disappears in the middle of a pass.
#pragma once
#include <memory>
#include <string_view>

#include "devices/device.h"
#include "engine/device_plugin.h"

namespace llada {

enum class Fault {
  none,
  allocate,  // share(), define_slabs() and the first submit(), which needs an arena, fail
  map,       // the n-th map() fails, and all later ones
  submit,    // the run with the n-th op fails before any of its work is done, and all later ones
  gone,      // the same, but the ops before the n-th are done; nothing works afterwards
  crowd,     // a run for more than n requests finds no memory; the error counts such runs
  nan,       // the run with the n-th op and all later ones end well, and what they give is no number
};

struct FaultPlan {
  Fault fault = Fault::none;
  int64_t at = 0;  // maps or ops counted from 0 over the device's life, or requests
};

// Reads "allocate", "map:N", "submit:N", "gone:N", "crowd:N" or "nan:N".
Result<FaultPlan> parse_fault(std::string_view text);

std::unique_ptr<Device> make_failing_device(std::unique_ptr<Device> device, FaultPlan plan);

// The devices of study/devices.h, and for each device of --device the option `fail=FAULT`, `late=MS:SEED` or
// `slow-host=STEPS` (late_device.h). One object without state.
const DevicePlugin& failing_devices();

}  // namespace llada
