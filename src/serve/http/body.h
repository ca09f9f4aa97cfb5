// The JSON body of a request: which fields and values of it change nothing here, whoever sends them.
#pragma once
#include <string>
#include <string_view>

#include "json/fields.h"
#include "serve/http/http.h"

namespace llada::serve {

// finish() refuses fields that nobody has read, but for values that change nothing, as those do that ask for nothing.
// strict: an unknown field is refused whatever its value.
Answered<Fields> read_body(std::string_view text, const JsonWatch& watch = {}, bool strict = false);
// That of the request; ends where its client has gone, or it takes longer than a request could.
Answered<Fields> read_body(Exchange& exchange, bool strict);

// Whether it is not there, or has a value that changes nothing.
bool changes_nothing(const Fields& body, const std::string& name);

// Null, false, 0, and what is empty.
bool asks_nothing(const Json& value);

// "NAME: found VALUE, needed NEEDED", about the field NAME.
std::unexpected<ApiError> wrong(const std::string& name, const Json& found, std::string_view needed);

}  // namespace llada::serve
