// Templates: a text with typed gaps, such as {"name": <string>, "age": <int 0..150>}.
//
//   <string> <string 1..20>   a JSON string, and how many characters it has
//   <int> <int 0..150>        a whole number, and its range; either end may be left out
//   <number>                  a JSON number
//   <bool>                    true or false
//   <choice red|green|blue>   one of these texts
//   <regex [a-z]+>            a text that the expression fits (regex.h); the expression has no '>'
//   <word>                    letters, digits and _ (ASCII)
//   <text>                    any text without a line end
//   <json>                    any JSON value, three levels deep
//
// "<<" is a '<'. A '<' that is not followed by a letter is itself.
#pragma once
#include <string_view>

#include "base/error.h"
#include "forms/expression.h"

namespace llada::forms {

Result<Expr> parse_template(std::string_view text, Budget& budget);

}  // namespace llada::forms
