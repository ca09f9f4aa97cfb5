// Loaded weights in the form that the kernels want: matrices packed where a packed layout exists, as stored
// otherwise. Immutable after loading, so any number of devices share them.
#pragma once
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/threads.h"
#include "graph/program.h"
#include "kernels/kernels.h"

namespace llada {

// Memory on a cache line's border, as the widest vector loads want it; null when there is none.
struct AlignedFree {
  void operator()(std::byte* data) const { std::free(data); }
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedFree>;
inline AlignedBytes allocate_aligned(int64_t bytes) {
  const auto size = static_cast<size_t>((bytes + 4095) / 4096 * 4096);
  return AlignedBytes(static_cast<std::byte*>(std::aligned_alloc(4096, size)));
}

struct CpuWeight {
  TensorView stored;
  int64_t inputs = 0, outputs = 0;
  AlignedBytes packed;  // null: the stored bytes are used in place
  std::vector<float> vector;            // 1-D weights (norms) as floats

  const std::byte* bytes() const { return packed ? packed.get() : stored.data; }
};

struct CpuWeights {
  const kernels::KernelTable* kernels = nullptr;
  std::vector<CpuWeight> list;
  int64_t packed_bytes = 0;
};

Result<std::shared_ptr<const CpuWeights>> load_cpu_weights(const kernels::KernelTable& table,
                                                           ThreadPool& pool,
                                                           std::span<const WeightInfo> infos,
                                                           std::span<const TensorView> weights,
                                                           const std::function<void(size_t)>& packed);

}  // namespace llada
