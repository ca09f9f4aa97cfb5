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
Expr quoted(Expr content, CallForm spelling = CallForm::json);  // of a string, in letters_in(spelling)
Expr json_integer(std::optional<int64_t> least, std::optional<int64_t> most);
// Bounds are 0 or from 1e-15 to 1e15 in size; above, below: the bound itself is out.
struct NumberRange {
  std::optional<double> least = {}, most = {};
  bool above = false, below = false;
};
Expr json_number(const NumberRange& range);
Expr json_null(CallForm spelling);
// Of 0 to kMostLevels (form.h), one object each.
Expr json_any(int64_t depth, CallForm spelling = CallForm::json);     // any value, nested to so many levels
Expr json_object(int64_t depth, CallForm spelling = CallForm::json);  // any object; 1: of plain values
// `items` from least to most times in a list; most -1: any number.
Expr json_list(const Expr& item, int64_t least, int64_t most, CallForm spelling = CallForm::json);
// An object of members, each of which is such a name with what stands behind it and such a value.
Expr json_dictionary(const Expr& member, int64_t least, int64_t most, CallForm spelling = CallForm::json);
Expr json_key(CallForm spelling);                         // any name
Expr json_key(std::string_view name, CallForm spelling);  // this one
// Of a string, a name of Gemma's that may stand without quotes.
Expr bare_name();
// The content of such a string; null: there is no such format.
Expr json_format(std::string_view name, Letters letters = Letters::json);
// Multiples of a step, without exponents. Invalid: the step is not one that can be followed.
Result<Expr> json_multiples(double step, bool integer, Budget& budget);

}  // namespace llada::forms
