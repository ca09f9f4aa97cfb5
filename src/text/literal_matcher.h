// Finds fixed strings in text: at each place the longest one, going left to right (leftmost-longest).
// A sorted list, narrowed byte by byte; the cost is bounded by text length times the longest string.
#pragma once
#include <bitset>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace llada {

class LiteralMatcher {
 public:
  using Literal = std::pair<std::string_view, int32_t>;  // the string, and the value that a match returns

  struct Match {
    size_t begin = 0, length = 0;  // length 0: none
    int32_t value = -1;
  };

  LiteralMatcher() = default;

  // Strings are not empty, not repeated, and outlive the matcher.
  explicit LiteralMatcher(std::vector<Literal> literals);

  // The first match that begins at or after `from`.
  Match find(std::string_view text, size_t from) const;

  bool empty() const { return literals_.empty(); }

 private:
  std::vector<Literal> literals_;
  std::bitset<256> first_bytes_;
};

}  // namespace llada
