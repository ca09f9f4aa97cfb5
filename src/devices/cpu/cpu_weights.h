// Loaded weights in the form that the kernels want: matrices that are multiplied by are packed where a packed layout
// exists, as stored otherwise; rows are picked from the stored bytes. A head that is tied to the embedding has both
// forms. Immutable after loading, so any number of devices share them.
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
  bool must_be_packed = false;        // the kernels do not multiply by the stored bytes
  std::vector<float> vector;          // 1-D weights (norms) as floats

  bool can_multiply() const { return packed != nullptr || !must_be_packed; }
  // What products read. Rows are picked from `stored`.
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

// Whether all that the program multiplies by was loaded for it: stored bytes in a kernel that reads packed ones would be
// numbers without a meaning.
Status check_uses(const CpuWeights& weights, const Program& program);

}  // namespace llada
