// The K/V rows that a DSP has written: they stay in its caches until the host asks, by a batch without ops.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "devices/hexagon/library.h"
#include "graph/program.h"
#include "memory/kv_store.h"

namespace llada::hexagon {

// The stores of a step that a DSP can see, by stream, and the rows that the host has written to them since the last
// call.
struct KeptStores {
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::vector<std::vector<KvRows>> written;
};
// Makes a DSP a viewer of the stores (KvStore::keep_with), and flushes the host's rows to memory. lines: counts the
// cache lines that are maintained later.
KeptStores keep_stores(const StepInputs& inputs, const Library& library,
                       const std::shared_ptr<std::atomic<int64_t>>& lines);

}  // namespace llada::hexagon
