// Devices that the engine does not bring along. Whoever composes a program hands them over (LoadOptions::plugin), as
// the program llada-study does with those of study/devices.h. The engine asks the plugin for every name of --device
// that is none of its own, and for further options of all devices.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "devices/device.h"
#include "sched/memory_runtime.h"
#include "tensor/view.h"

namespace llada {

struct DeviceSpec;
struct ModelGraph;

// One device as --device names it, before the model is known.
class PluginDevice {
 public:
  virtual ~PluginDevice() = default;
  virtual std::string_view options() const = 0;  // of its own, for the error that lists them
  // False: not an option of its own.
  virtual Result<bool> set(std::string_view key, const std::string& value) = 0;
  // Experts that the accelerator holds: whether it can, the costs of one, and the places for them.
  virtual Status can_hold_experts() const = 0;
  virtual ExpertCosts expert_costs(std::array<double, 3> piece_bytes, double flops_per_row) const = 0;
  virtual void hold_experts(const ExpertCosts& costs, const ExpertWindow& window) = 0;
  virtual Result<std::unique_ptr<Device>> open(const DeviceSpec& spec, const ModelGraph& graph,
                                               std::span<const TensorView> weights, std::unique_ptr<Device> host) = 0;
};

class DevicePlugin {
 public:
  // A device that passes work on to the given one.
  using Wrap = std::function<std::unique_ptr<Device>(std::unique_ptr<Device>)>;
  struct Listed {
    std::string name, description;
  };

  virtual ~DevicePlugin() = default;
  virtual std::string_view form() const = 0;  // of the names, for the error that lists them
  virtual std::vector<Listed> list() const = 0;
  // Null: none of its own.
  virtual Result<std::unique_ptr<PluginDevice>> find(std::string_view name) const = 0;
  virtual std::string_view options() const = 0;  // of any device, for the error that lists them
  // Empty: not one of these options.
  virtual Result<Wrap> wrap(std::string_view key, std::string_view value) const = 0;
  // Policies of memory, those of sched among them.
  virtual Result<MemoryOptions> memory(std::string_view name) const = 0;
};

}  // namespace llada
