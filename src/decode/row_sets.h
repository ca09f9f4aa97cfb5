// Rows of a plan as sets: ascending positions, each once.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

namespace llada::decode {

inline std::vector<int32_t> merged(std::span<const int32_t> a, std::span<const int32_t> b) {
  std::vector<int32_t> out;
  std::ranges::set_union(a, b, std::back_inserter(out));
  return out;
}

}  // namespace llada::decode
