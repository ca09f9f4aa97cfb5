// Sets as ascending vectors, each value once: rows of a plan, indices of candidates.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <ranges>
#include <vector>

namespace llada::decode {

inline std::vector<int32_t> range(int64_t begin, int64_t end) {
  std::vector<int32_t> rows(static_cast<size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), static_cast<int32_t>(begin));
  return rows;
}

template <std::ranges::input_range A, std::ranges::input_range B>
std::vector<std::ranges::range_value_t<A>> merged(const A& a, const B& b) {
  std::vector<std::ranges::range_value_t<A>> out;
  std::ranges::set_union(a, b, std::back_inserter(out));
  return out;
}

}  // namespace llada::decode
