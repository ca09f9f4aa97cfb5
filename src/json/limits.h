// Limits of JSON text from outside, looked at before a parser sees it: deep nesting, very long strings or white space,
// huge numbers of values, and NUL bytes are refused.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace llada {

struct JsonLimits {
  size_t depth = 64;
  size_t values = 5000;                // counted as separators and opening brackets
  size_t run_bytes = size_t{1} << 17;  // of one string, number or stretch of white space
};

inline constexpr JsonLimits kOwnJson{.depth = 1000, .values = SIZE_MAX, .run_bytes = SIZE_MAX};  // our own files

// Looks at brackets, separators and the lengths between them only; cheap, allocates nothing.
Status check_json_limits(std::string_view text, std::string_view file, const JsonLimits& limits);

}  // namespace llada
