// Texts of JSON values as expressions, in the one spelling that answers have: ", " and ": " and no other white space,
// no escape that is not needed. Arguments of calls may have Gemma's instead (text/call_syntax.h): `{a:1,b:[true]}`,
// strings between control tokens and without escapes, members in the order of their names.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "forms/expression.h"
#include "json/parse.h"
#include "text/call_syntax.h"
#include "text/json_text.h"

namespace llada::forms {

// Limits first, then the text; `source` is named in the error.
Result<Json> parse_json_text(std::string_view text, std::string_view source);

// How characters stand in a string.
Letters letters_in(CallForm spelling);
// least, most: characters; most -1: any number.
Expr json_string(int64_t least, int64_t most, CallForm spelling = CallForm::json);
Expr quoted(Expr content, CallForm spelling = CallForm::json);  // a string of this content in letters_in(spelling)
Expr json_integer(std::optional<int64_t> least, std::optional<int64_t> most);
// Bounds are 0 or from 1e-15 to 1e15 in size; above, below: the bound itself is out.
struct NumberRange {
  std::optional<double> least = {}, most = {};
  bool above = false, below = false;
};
Expr json_number(const NumberRange& range);
Expr json_null(CallForm spelling);
// Any value, any object, nested to `depth` levels: 0 to kMostLevels (form.h). 1: an object of plain values.
Expr json_any(int64_t depth, CallForm spelling = CallForm::json);
Expr json_object(int64_t depth, CallForm spelling = CallForm::json);
// A list of `least` to `most` items; most -1: any number.
Expr json_list(const Expr& item, int64_t least, int64_t most, CallForm spelling = CallForm::json);
// An object of `least` to `most` members, each with name and value as in `member`.
Expr json_dictionary(const Expr& member, int64_t least, int64_t most, CallForm spelling = CallForm::json);
Expr json_key(CallForm spelling);                         // any name
Expr json_key(std::string_view name, CallForm spelling);  // this one
// A name that Gemma's models write without quotes, as the content of a string.
Expr bare_name();
// The content of a string of a named format, as "date"; null: the format is not known.
Expr json_format(std::string_view name, Letters letters = Letters::json);
// Multiples of a step, without exponents. Invalid: a step that cannot be followed exactly.
Result<Expr> json_multiples(double step, bool integer, Budget& budget);

}  // namespace llada::forms
