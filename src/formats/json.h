// JSON from untrusted files and requests: nlohmann's parser behind limits, with every failure as a one-line error. The
// work is linear in the text (but for a field's search among those of its object), whatever the text holds.
// Deliberately refused: deep nesting, very long strings or white space, duplicate fields, documents with more
// values than `limits` allows.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json_limits.h"

namespace llada {

// Asked at every kJsonWatch-th value and field while a document is parsed: an error ends that and is its result.
using JsonWatch = std::function<Status()>;
inline constexpr size_t kJsonWatch = 4096;

// A document as a tree; the top level must be an object.
Result<nlohmann::json> parse_json_object(std::string_view text, std::string_view file, const JsonLimits& limits = {},
                                         const JsonWatch& watch = {});

// Of a file, for an error: a string in quotes, a number, true or false; of anything else its type.
std::string value_text(const nlohmann::json& value);

}  // namespace llada
