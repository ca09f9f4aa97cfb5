// The GPU's copies of K/V stores, of the same layout. A step stores into both; rows that the host has written since are
// copied before attention reads them. The store knows which rows the copy has (KvViewer::gpu).
#pragma once
#include <list>
#include <span>
#include <vector>

#include "devices/cuda/kernels.h"
#include "devices/cuda/runtime.h"
#include "graph/program.h"
#include "memory/kv_store.h"

namespace llada::cuda {

class KvMirrors {
 public:
  struct Mirror {
    const std::byte* store = nullptr;
    DeviceBytes data;
  };
  // The stores and copies of a step's streams; a store's copy is made at its first step. Failed: a store that is not in
  // pinned memory (Device::allocate), no device memory.
  Result<std::vector<KvPlace>> of(Memory& memory, std::span<const Stream> streams);

  // Queues copies of those `keys` of a sequence that the GPU does not have.
  static Status refresh(const KvPlace& place, KvStore& kv, int layer, int sequence, KeyRange keys, cudaStream_t stream);

 private:
  Result<const Mirror*> of(Memory& memory, KvStore& kv);

  size_t most_ = 0;            // kept at a time
  std::list<Mirror> mirrors_;  // most recent first
};

}  // namespace llada::cuda
