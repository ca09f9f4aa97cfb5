#include "memory/kv_store.h"

#include <algorithm>

namespace llada {

Result<KvStore> KvStore::create(const KvShape& shape) {
  KvStore store;
  store.shape_ = shape;
  const int64_t element = shape.type == DType::F16 ? 2 : 4;
  const auto missing = [&] {
    return failed("K/V store: memory for {} positions x {} layers x {} sequences could not be allocated",
                  shape.positions, shape.layers, shape.sequences);
  };
  // No machine maps more than 2^47 bytes; below that nothing here overflows.
  constexpr double kMostBytes = 0x1p47;
  if (2.0 * static_cast<double>(shape.positions) * shape.head_dim * static_cast<double>(element) *
          shape.kv_heads * shape.sequences * shape.layers >
      kMostBytes)
    return missing();
  // Whole cache lines per head: two threads that write neighbouring heads never share a line.
  store.head_bytes_ = (shape.positions * shape.head_dim * element + 63) / 64 * 64;
  store.half_bytes_ = store.head_bytes_ * shape.kv_heads * shape.sequences * shape.layers;
  store.data_ = allocate_aligned(2 * store.half_bytes_);
  if (store.data_ == nullptr) return missing();
  store.versions_.assign(static_cast<size_t>(shape.positions * shape.sequences), kAbsent);
  return store;
}

void KvStore::clear() { std::ranges::fill(versions_, kAbsent); }

}  // namespace llada
