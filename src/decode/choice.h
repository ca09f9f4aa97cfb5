// Choices of decoding: enums whose values have words, as on the command line and in reports.
#pragma once
#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada::decode {

// By value of the enum.
using Words = std::span<const std::string_view>;

template <class T>
concept Choice = requires(T value) { words(value); };

template <Choice T>
std::string_view name(T value) {  // empty: a number without a name
  const auto at = static_cast<size_t>(value);
  return at < words(value).size() ? words(value)[at] : std::string_view();
}

template <Choice T>
Result<T> from_name(std::string_view text) {
  const Words all = words(T{});
  const auto found = std::ranges::find(all, text);
  if (found == all.end()) return invalid("found '{}', needed one of {}", text, fmt::join(all, ", "));
  return static_cast<T>(found - all.begin());
}

template <Choice T>
std::vector<T> all_values() {
  std::vector<T> all;
  for (size_t i = 0; i < words(T{}).size(); ++i) all.push_back(static_cast<T>(i));
  return all;
}

}  // namespace llada::decode
