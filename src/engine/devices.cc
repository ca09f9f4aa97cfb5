#include "engine/devices.h"

#include "devices/cpu/cpu_device.h"
#include "kernels/kernels.h"

namespace llada {

Result<std::vector<DeviceSummary>> list_devices(std::string_view isa, int threads) {
  LLADA_TRY(const auto info, describe_cpu({.threads = threads, .isa = isa}));
  DeviceSummary cpu{
      .name = info.name, .description = info.description, .threads = info.threads, .instruction_sets = {}};
  for (const kernels::KernelTable* table : kernels::available())
    cpu.instruction_sets.emplace_back(table->isa);
  return std::vector{cpu};
}

}  // namespace llada
