#include "memory/slabs.h"

namespace llada {

std::string_view name(SlabGrain grain) {
  switch (grain) {
    case SlabGrain::layer:
      return "layer";
    case SlabGrain::half_layer:
      return "half-layer";
    case SlabGrain::op:
      return "op";
  }
  return "";
}

std::vector<Slab> group_slabs(std::span<const WeightUse> uses, SlabGrain grain, int64_t page_bytes) {
  std::vector<Slab> slabs;
  std::vector<int64_t> exact;  // bytes before they are rounded to pages
  WeightUse previous;
  for (const WeightUse& use : uses) {
    const bool joins = !slabs.empty() && slabs.back().layer == use.layer &&
                       (grain == SlabGrain::layer || (grain == SlabGrain::half_layer && previous.half == use.half) ||
                        previous.op == use.op);
    if (!joins) {
      slabs.push_back({.weights = {}, .bytes = 0, .layer = use.layer});
      exact.push_back(0);
    }
    previous = use;
    slabs.back().weights.push_back(use.weight);
    exact.back() += use.bytes;
    slabs.back().bytes = (exact.back() + page_bytes - 1) / page_bytes * page_bytes;
  }
  return slabs;
}

int64_t total_bytes(std::span<const Slab> slabs) {
  int64_t sum = 0;
  for (const Slab& slab : slabs) sum += slab.bytes;
  return sum;
}

}  // namespace llada
