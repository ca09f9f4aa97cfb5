// A result that a test cannot do without, and the error of one that it wants none of.
#pragma once
#include <source_location>
#include <stdexcept>
#include <string>

namespace llada {

// The result as it is; where it has no value the test ends, with its error and the line of the call.
template <typename R>
R must(R result, const std::source_location at = std::source_location::current()) {
  if (result) return result;
  std::string says = std::string(at.file_name()) + ":" + std::to_string(at.line()) + ": ";
  if constexpr (requires { result.error().message; })
    says += result.error().message;
  else
    says += "no value";
  throw std::runtime_error(says);
}

// The line of a result's error, empty where it has none.
template <typename R>
std::string why_not(const R& result) {
  return result ? "" : result.error().message;
}

}  // namespace llada
