// Numbers of a text: std::from_chars where the standard library has it for floating point too, and the same from strtod
// where it has not (libc++ before 20, so also Android's). The program keeps the numeric locale "C".
#pragma once
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace llada {

// Parses a number at the beginning of [first, last); other text may follow it. The result is as std::from_chars has it.
std::from_chars_result parse_with_strtod(const char* first, const char* last, double& value);

template <class T>
std::from_chars_result from_chars(const char* first, const char* last, T& value) {
  if constexpr (requires { std::from_chars(first, last, value); }) {
    return std::from_chars(first, last, value);
  } else {
    double wide = 0;
    const auto result = parse_with_strtod(first, last, wide);
    if (result.ec == std::errc()) value = static_cast<T>(wide);
    return result;
  }
}

// The number that the whole text spells; empty where it has other characters or is out of the type's range.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = llada::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace llada
