// Sets as ascending vectors, each value once: rows of a plan, indices of candidates.
#pragma once
#include <algorithm>
#include <iterator>
#include <ranges>
#include <vector>

namespace llada::decode {

template <std::ranges::input_range A, std::ranges::input_range B>
std::vector<std::ranges::range_value_t<A>> merged(const A& a, const B& b) {
  std::vector<std::ranges::range_value_t<A>> out;
  std::ranges::set_union(a, b, std::back_inserter(out));
  return out;
}

}  // namespace llada::decode
