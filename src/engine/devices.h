// The devices of this build and those found on this machine.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada {

class DevicePlugin;

struct DeviceSummary {
  std::string name;                           // as --device takes it
  std::string description;                    // processor, instruction set in use, threads
  bool usable = true;                         // by a run here; otherwise the description says why not
  int threads = 0;                            // that a run would use
  std::vector<std::string> instruction_sets;  // kernel tables that run here, best first; of cpu only
};

// isa, cdsprpc, plugin: as in LoadOptions. The error lists the devices that there are.
Result<std::vector<DeviceSummary>> list_devices(std::string_view isa, int threads, const std::string& cdsprpc = {},
                                                const DevicePlugin* plugin = nullptr);

}  // namespace llada
