// Numbers as reports for people write them.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace llada {

// "1 token", "2 tokens".
inline std::string counted(int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

// Rounded to so many decimals, and never -0: a small loss is printed as 0.00.
inline double rounded(double value, int decimals) {
  const double unit = std::pow(10.0, decimals);
  return std::isfinite(value) ? std::round(value * unit) / unit + 0.0 : value;
}

}  // namespace llada
