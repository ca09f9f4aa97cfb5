// Texts of JSON values as expressions, in the one spelling that answers have: ", " and ": " and no other white space,
// no escape that is not needed.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "forms/expression.h"
#include "text/json_text.h"

namespace llada::forms {

using Json = nlohmann::ordered_json;  // members in the order in which they are written

// Limits first, then the text; `source` is named in the error.
Result<Json> parse_json_text(std::string_view text, std::string_view source);

Expr json_string(int64_t least, int64_t most);  // characters; most -1: any number
Expr quoted(Expr content);                      // of a string, in Letters::json
Expr json_integer(std::optional<int64_t> least, std::optional<int64_t> most);
// Bounds are whole numbers; above, below: the bound itself is out.
struct NumberRange {
  std::optional<int64_t> least = {}, most = {};
  bool above = false, below = false;
};
Expr json_number(const NumberRange& range);
Expr json_literal();  // true, false, null
// Of 0 to kMostLevels (form.h), one object each.
Expr json_any(int64_t depth);     // any value, lists and objects nested to so many levels
Expr json_object(int64_t depth);  // any object; 1: of plain values
// `items` from least to most times in a list; most -1: any number.
Expr json_list(const Expr& item, int64_t least, int64_t most);
Expr json_dictionary(const Expr& value);  // an object of any members with such values
// Null: there is no such format.
Expr json_format(std::string_view name);

}  // namespace llada::forms
