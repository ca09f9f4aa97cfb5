#include "text/literal_matcher.h"

#include <algorithm>

namespace llada {

LiteralMatcher::LiteralMatcher(std::vector<Literal> literals) : literals_(std::move(literals)) {
  std::sort(literals_.begin(), literals_.end());
  for (const Literal& literal : literals_) first_bytes_.set(static_cast<uint8_t>(literal.first[0]));
}

LiteralMatcher::Match LiteralMatcher::find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!first_bytes_[static_cast<uint8_t>(text[begin])]) continue;
    Match match;
    auto low = literals_.begin(), high = literals_.end();  // those that agree with the text so far
    for (size_t depth = 0; low != high && begin + depth < text.size(); ++depth) {
      const char byte = text[begin + depth];
      const auto less = [depth](const Literal& literal, char wanted) {
        return literal.first.size() <= depth ||
               static_cast<uint8_t>(literal.first[depth]) < static_cast<uint8_t>(wanted);
      };
      const auto greater = [depth](char wanted, const Literal& literal) {
        return literal.first.size() > depth &&
               static_cast<uint8_t>(wanted) < static_cast<uint8_t>(literal.first[depth]);
      };
      low = std::lower_bound(low, high, byte, less);
      high = std::upper_bound(low, high, byte, greater);
      // Sorted order puts the literal that ends here before those that go on.
      if (low != high && low->first.size() == depth + 1) match = {begin, depth + 1, low->second};
    }
    if (match.length > 0) return match;
  }
  return {};
}

}  // namespace llada
