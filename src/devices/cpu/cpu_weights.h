// Loaded weights in the form that the kernels want. Matrices that are multiplied by are packed where a packed layout
// exists, as stored otherwise; rows are picked from the stored bytes. A head that is tied to the embedding has both
// forms. A weight does not change once it is loaded, so any number of devices share them; behind an accelerator most
// are never loaded.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/pages.h"
#include "base/threads.h"
#include "devices/cpu/cpu_device.h"
#include "devices/cpu/packed_weights.h"
#include "graph/program.h"
#include "kernels/kernels.h"

namespace llada {

struct CpuWeight {
  TensorView stored;
  int64_t inputs = 0, outputs = 0;
  const std::byte* packed = nullptr;  // in a slab or a file; null: the stored bytes are used in place
  bool must_be_packed = false;        // the kernels cannot multiply by the stored bytes
  bool multiplied = false;            // a product reads it, so it is packed when it is loaded
  std::vector<float> vector;          // 1-D weights (norms) as floats

  bool can_multiply() const { return multiplied || !must_be_packed; }
  // The bytes that products read. Rows are picked from `stored`.
  const std::byte* bytes() const { return packed != nullptr ? packed : stored.data; }
};

class CpuWeights {
 public:
  // Nothing is loaded yet. packed: weights that were packed for this table before, or null.
  CpuWeights(const kernels::KernelTable& table, std::span<const WeightInfo> infos, std::span<const TensorView> weights,
             WeightHooks hooks, std::shared_ptr<const PackedWeights> packed = nullptr);

  // Loads those of `ids` that are not yet loaded, in one allocation, since huge pages do not fit the size of a single
  // matrix. Any thread may call it while others compute with loaded weights.
  Status load(ThreadPool& pool, std::span<const WeightId> ids);

  std::vector<WeightId> every_id() const;

  bool complete() const { return missing_.load(std::memory_order_acquire) == 0; }
  int64_t packed_bytes() const { return packed_bytes_.load(std::memory_order_relaxed); }

  const kernels::KernelTable* const kernels;
  std::vector<CpuWeight> list;  // each element is written once, by the load() that finds it missing

 private:
  std::vector<bool> picked_from_;  // see WeightInfo
  WeightHooks hooks_;
  const std::shared_ptr<const PackedWeights> packed_;
  std::mutex mutex_;  // guards the members below; readers of `list` look at ready_
  std::vector<AlignedBytes> slabs_;
  std::unique_ptr<std::atomic<bool>[]> ready_;
  std::atomic<size_t> missing_;
  std::atomic<int64_t> packed_bytes_ = 0;
};

// Failed: the program multiplies by a weight that was loaded only to pick rows from, and is not packed.
Status check_uses(const CpuWeights& weights, const Program& program);

}  // namespace llada
