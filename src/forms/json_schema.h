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

struct SchemaReading {
  bool loose = false;                            // what cannot be followed exactly is left out, each with a warning
  CallForm spelling = CallForm::json;            //
  std::string_view where = "$";                  // what paths begin with
  std::vector<std::string>* warnings = nullptr;  // "$.properties.age.pattern: why it was left out"
};

// Errors begin with the path of what is wrong: "$.properties.age: ...".
Result<Expr> parse_json_schema(std::string_view text, Budget& budget, const SchemaReading& reading = {});

}  // namespace llada::forms
