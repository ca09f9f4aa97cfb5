#include "engine/devices.h"

#include "devices/cpu/cpu_device.h"
#include "devices/cuda/cuda_device.h"
#include "devices/hexagon/hexagon_device.h"
#include "engine/device_plugin.h"
#include "kernels/kernels.h"

namespace llada {

Result<std::vector<DeviceSummary>> list_devices(std::string_view isa, int threads, const std::string& cdsprpc,
                                                const DevicePlugin* plugin) {
  LLADA_TRY(const auto info, describe_cpu({.threads = threads, .isa = isa, .exact_attention = false}));
  DeviceSummary cpu{.name = info.name,
                    .description = info.description,
                    .usable = true,
                    .threads = info.threads,
                    .instruction_sets = {}};
  for (const kernels::KernelTable* table : kernels::available()) cpu.instruction_sets.emplace_back(table->isa);
  std::vector<DeviceSummary> list{cpu};
  if (plugin != nullptr)
    for (DevicePlugin::Listed& listed : plugin->list())
      list.push_back({.name = std::move(listed.name),
                      .description = std::move(listed.description),
                      .usable = true,
                      .threads = info.threads,
                      .instruction_sets = {}});
  HexagonOptions asked;
  asked.library = cdsprpc;
  const auto dsp = describe_hexagon(asked);
  std::string no_dsp = dsp ? "" : dsp.error().message;
  if (no_dsp.starts_with("hexagon: ")) no_dsp.erase(0, std::string_view("hexagon: ").size());
  list.push_back({.name = "hexagon",
                  .description = dsp ? *dsp : "not usable: " + no_dsp,
                  .usable = dsp.has_value(),
                  .threads = info.threads,
                  .instruction_sets = {}});
  const auto gpu = describe_cuda();
  list.push_back({.name = "cuda",
                  .description = gpu ? *gpu : gpu.error().message,
                  .usable = gpu.has_value(),
                  .threads = info.threads,
                  .instruction_sets = {}});
  return list;
}

}  // namespace llada
