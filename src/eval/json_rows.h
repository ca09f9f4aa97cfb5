// Files of one JSON object per line by other programs: fields that nobody asks for do not matter.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "json/limits.h"
#include "json/parse.h"

namespace llada::eval {

std::string_view trimmed(std::string_view text);

// A text from outside may nest brackets as deep as it is long; the parser recurses, so depth is bounded first.
inline constexpr JsonLimits kRowLimits{.depth = 64, .values = SIZE_MAX, .run_bytes = SIZE_MAX};

// Calls visit(row, "source:number") for every line that is not empty, until it fails. Invalid: a line that is no
// object.
Status for_each_row(std::string_view text, const std::string& source,
                    const std::function<Status(const Json& row, const std::string& where)>& visit);

// A field that is a text; otherwise invalid.
Result<std::string> text_field(const Json& row, const char* field, const std::string& where);

}  // namespace llada::eval
