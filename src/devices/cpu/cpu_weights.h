// Loaded weights in the form that the kernels want: matrices packed where a packed layout exists, as stored
// otherwise. Immutable after loading, so any number of devices share them.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/pages.h"
#include "base/threads.h"
#include "devices/cpu/cpu_device.h"
#include "graph/program.h"
#include "kernels/kernels.h"

namespace llada {

struct CpuWeight {
  TensorView stored;
  int64_t inputs = 0, outputs = 0;
  const std::byte* packed = nullptr;  // in the slab; null: the stored bytes are used in place
  std::vector<float> vector;  // 1-D weights (norms) as floats

  const std::byte* bytes() const { return packed != nullptr ? packed : stored.data; }
};

struct CpuWeights {
  const kernels::KernelTable* kernels = nullptr;
  std::vector<CpuWeight> list;
  // All packed matrices, in the list's order: one allocation, because huge pages do not fit the size of each
  // matrix, and what a forward reads is one stretch.
  AlignedBytes slab;
  int64_t packed_bytes = 0;
};

Result<std::shared_ptr<const CpuWeights>> load_cpu_weights(const kernels::KernelTable& table,
                                                           ThreadPool& pool,
                                                           std::span<const WeightInfo> infos,
                                                           std::span<const TensorView> weights,
                                                           const WeightHooks& hooks);

}  // namespace llada
