// Loaded weights in the form that the kernels want: matrices packed where a packed layout exists, as stored
// otherwise. Immutable after loading, so any number of devices share them.
#pragma once
#include <sys/mman.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/threads.h"
#include "graph/program.h"
#include "kernels/kernels.h"

namespace llada {

// Memory on a cache line's border, as the widest vector loads want it; null when there is none. Large pieces lie on
// huge pages where the system gives them on request: a tenth more bandwidth than through 4 KiB pages.
struct AlignedFree {
  void operator()(std::byte* data) const { std::free(data); }
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedFree>;
inline AlignedBytes allocate_aligned(int64_t bytes) {
  constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;
  const auto size = (static_cast<size_t>(bytes) + kPage - 1) / kPage * kPage;
  const bool large = size >= 2 * kHugePage;
  AlignedBytes data(static_cast<std::byte*>(std::aligned_alloc(large ? kHugePage : kPage, size)));
  if (large && data != nullptr) static_cast<void>(madvise(data.get(), size, MADV_HUGEPAGE));
  return data;
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
