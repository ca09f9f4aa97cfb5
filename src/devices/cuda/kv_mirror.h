// The GPU's copies of K/V stores, of the same layout. What a step stores goes to both; what the host has written since is
// copied before attention reads it. The store's flags of digests tell the two apart: to this device, a digest is its copy.
#pragma once
#include <list>

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
  // The store's copy, made at the first time. Failed: the store is not of pinned memory (Device::allocate), or no memory.
  Result<const Mirror*> of(Memory& memory, KvStore& kv);

  static KvLayer layer(const Mirror& mirror, KvStore& kv, int layer);
  static KvLayer host_layer(KvStore& kv, int layer);
  // Queues copies of what the span reads and the GPU does not have.
  static Status refresh(const Mirror& mirror, KvStore& kv, int layer, const RowSpan& span, cudaStream_t stream);

 private:
  std::list<Mirror> mirrors_;  // most recent first
};

}  // namespace llada::cuda
