// JSON from untrusted files: its depth is limited before parsing, no exception leaves, and values are fetched by name
// with one error line that names the field. Inside text/ only.
#pragma once
#include <string>
#include <string_view>

#include "base/error.h"
#include "json/parse.h"

namespace llada {

inline constexpr size_t kMaxJsonDepth = 64;

// Errors: deeper than kMaxJsonDepth, or not JSON (with the offset of the first byte that is wrong).
Result<Json> parse_json(std::string_view text, const std::string& source);

// The member, or null where `object` is no object or has no such member.
const Json* find_member(const Json& object, const char* name);

// A member that may be absent or null; then `fallback`. Error: another type. `where` is the path of `object`,
// for the line.
Result<bool> bool_member(const Json& object, const char* name, bool fallback, const std::string& where);
Result<std::string> string_member(const Json& object, const char* name, const std::string& fallback,
                                  const std::string& where);

// A member that must be a whole number in [0, limit).
Result<int64_t> index_member(const Json& object, const char* name, int64_t limit, const std::string& where);

// The kind of a value for error lines: "a string", "an object", "null".
std::string_view kind_of(const Json& value);

}  // namespace llada
