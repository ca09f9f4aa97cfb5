// Which positions of a K/V sequence a row reads. Kernels and devices know nothing else of how a model attends.
#pragma once
#include <cstdint>

namespace llada {

struct KeyRange {
  int32_t first = 0, last = 0;  // positions [first, last)
  int32_t count() const { return last - first; }
  bool operator==(const KeyRange&) const = default;
};

}  // namespace llada
