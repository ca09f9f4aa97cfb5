// The body of a request: JSON, and which fields and values of it change nothing here, whoever sends them; a form.
#pragma once
#include <string>
#include <string_view>
#include <vector>

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

// A member of what may be an object; null where it is not there.
const Json& member(const Json& object, std::string_view name);

// Refuses a member that asks for something.
std::unexpected<ApiError> unsupported(const std::string& path);
// "NAME: found VALUE, needed NEEDED", about the field NAME.
std::unexpected<ApiError> wrong(const std::string& name, const Json& found, std::string_view needed);

// A part of multipart/form-data, as clients send a file (RFC 7578). Deliberately absent: parts within parts, and
// encodings of a part other than its bytes.
struct FormPart {
  std::string name, file;  // file: its name; empty: a field
  std::string_view bytes;  // of the body
};

// The parts of a body with this Content-Type. Refused: another type, a body that ends within a part, more than 32
// parts.
Answered<std::vector<FormPart>> parse_form(std::string_view content_type, std::string_view body);

}  // namespace llada::serve
