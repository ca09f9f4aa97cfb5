// The body of a request: JSON, with the fields and values that any client may send without effect; multipart forms.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "json/fields.h"
#include "serve/http/http.h"

namespace llada::serve {

// The result's finish() refuses fields that nobody has read, unless their value changes nothing. strict: it refuses
// unknown fields whatever their value.
Answered<Fields> read_body(std::string_view text, const JsonWatch& watch = {}, bool strict = false);
// Reads the request's body; an error where its client has gone, or where reading takes too long.
Answered<Fields> read_body(Exchange& exchange, bool strict);

// Whether the field is left out or has a value that changes nothing.
bool changes_nothing(const Fields& body, const std::string& name);

// Null, false, 0, or an empty text, list or object.
bool asks_nothing(const Json& value);

// The member of an object; null where there is none or `object` is another value.
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
