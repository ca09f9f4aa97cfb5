// JSON Schema as an expression. Every text that fits is valid by the schema; not every valid text fits, since answers
// have one spelling (json_values.h), members stand in the schema's order, and objects that have `properties` have no
// others.
//
// Keywords: type (also a list), enum, const, properties, required, additionalProperties, items, minItems, maxItems,
// minLength, maxLength, pattern, format, minimum, maximum, exclusiveMinimum, exclusiveMaximum, anyOf, $ref inside the
// document, allOf of one schema. A $ref inside what it names is followed kMostNested times; beyond that what
// needs it is left out. Notes (title, description, default, examples ...) say nothing. Any other keyword is an error
// that names it, and so are combinations that would need two automata at once.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "forms/expression.h"
#include "text/call_syntax.h"

namespace llada::forms {

inline constexpr int kMostNested = 4;
inline constexpr int kAnyDepth = 3;  // of values that a schema leaves open

// Errors begin with the path of what is wrong: "$.properties.age: ...". dropped: what is not supported is left out, and
// its paths stand there; texts fit the rest of the schema (of allOf the first schema; oneOf is read as anyOf).
Result<Expr> parse_json_schema(std::string_view text, Budget& budget, std::vector<std::string>* dropped = nullptr,
                               CallForm spelling = CallForm::json);

}  // namespace llada::forms
