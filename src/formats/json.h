// JSON of model files (json/parse.h), and its values in errors.
#pragma once
#include <string>

#include "json/parse.h"

namespace llada {

// A file's value for an error: a string in quotes, a number, true or false; for anything else its type.
std::string value_text(const Json& value);

}  // namespace llada
