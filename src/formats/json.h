// JSON of model files (json/parse.h), and its values in errors.
#pragma once
#include <string>

#include "json/parse.h"

namespace llada {

// Of a file, for an error: a string in quotes, a number, true or false; of anything else its type.
std::string value_text(const Json& value);

}  // namespace llada
