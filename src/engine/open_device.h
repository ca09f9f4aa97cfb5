// Opens the device that a DeviceSpec asks for. The cpu device is made here: as the device itself, or as the host beside
// another one, which is given it.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "engine/device_spec.h"
#include "engine/model.h"
#include "models/model_graph.h"

namespace llada {

struct OpenedDevice {
  std::unique_ptr<Device> device, fallback;  // over the same weights; the fallback may be null
  std::optional<ExpertCosts> expert_costs;   // measured, of a device that has experts to move
  MemoryOptions memory;
};

// The stored weights that the graph lists, in its order, as views of the file.
Result<std::vector<TensorView>> weight_views(const ModelFile& file, const ModelGraph& graph);

// The hooks by name as hooks by number. The graph is kept as long as the hooks live.
WeightHooks weight_hooks(const ModelGraph& graph, const std::vector<TensorView>& weights, const MemoryHooks& to_tell);

// Over the weights that the graph lists, views of the file. Whether the host packs all of them now is decided here,
// and whether it finds them packed (pack_cache.h).
// file, graph and hooks are kept as long as the device lives.
Result<OpenedDevice> open_device(const DeviceSpec& spec, const LoadOptions& options, const ModelFile& file,
                                 const ModelGraph& graph, const MemoryHooks& hooks);

}  // namespace llada
