// JSON with one value per line.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "json/fields.h"

namespace llada {

// Valid UTF-8 on one line with its end, whatever bytes the values hold.
std::string json_line(const Json& value);

// Calls visit(line, "source:number") for every line that is not empty; the first error ends it.
Status for_each_json_line(std::string_view text, const std::string& source,
                          const std::function<Status(std::string_view line, std::string where)>& visit);

// The same of lines that are objects, by other programs: fields that nobody asks for do not matter. A text from outside
// may nest brackets as deep as it is long; the parser recurses, so depth is bounded first.
inline constexpr JsonLimits kOthersLines{.depth = 64, .values = SIZE_MAX, .run_bytes = SIZE_MAX};
Status for_each_json_object(std::string_view text, const std::string& source,
                            const std::function<Status(const Fields& fields)>& visit);

}  // namespace llada
