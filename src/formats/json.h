// JSON from untrusted files: nlohmann's parser behind limits, with every failure as a one-line error.
// Deliberately refused: deep nesting, very long strings or white space, duplicate fields, documents with more
// values than `limits` allows.
#pragma once
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/json_limits.h"

namespace llada {

// A small document (a configuration) as a tree; the top level must be an object.
Result<nlohmann::json> parse_json_object(std::string_view text, std::string_view file, const JsonLimits& limits = {});

}  // namespace llada
