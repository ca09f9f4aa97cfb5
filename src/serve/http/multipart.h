// A body of multipart/form-data, as clients send a file (RFC 7578). Deliberately absent: parts within parts, and
// encodings of a part other than its bytes.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/http.h"

namespace llada::serve {

struct FormPart {
  std::string name, file;  // file: its name; empty: a field
  std::string_view bytes;  // of the body
};

// The parts of a body with this Content-Type. Refused: another type, a body that ends within a part, more than 32
// parts.
Answered<std::vector<FormPart>> parse_form(std::string_view content_type, std::string_view body);

}  // namespace llada::serve
