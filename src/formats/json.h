// JSON from untrusted files: nlohmann's parser behind limits, with every failure as a one-line error.
// Deliberately refused: deep nesting, very long strings or white space, duplicate fields, documents with more
// values than `limits` allows.
#pragma once
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"

namespace llada {

struct JsonLimits {
  size_t depth = 64;
  size_t values = 5000;                // counted as separators and opening brackets
  size_t run_bytes = size_t{1} << 17;  // of one string, number or stretch of white space
};

// Looks at brackets, separators and the lengths between them only; cheap, allocates nothing.
Status check_json_limits(std::string_view text, std::string_view file, const JsonLimits& limits);

// A small document (a configuration) as a tree; the top level must be an object.
Result<nlohmann::json> parse_json_object(std::string_view text, std::string_view file,
                                         const JsonLimits& limits = {});

}  // namespace llada
