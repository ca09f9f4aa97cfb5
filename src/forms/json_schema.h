// JSON Schema as an expression, drafts 4 to 2020-12. Every text that fits is valid by the schema; not every valid text
// fits, since answers have one spelling (json_values.h), members stand in the schema's order, and objects that have
// `properties` have no others. docs/forms.md says what is followed of each keyword.
//
// A document (schema_document.h) is read value by value: the schemas that one value must fit become cases
// (schema_cases.h), and those an expression (schema_write.h). What is the same is made once, so the time is that of the
// schema's size; Budget bounds what branches and references make of it. Reading is exact or says so: what cannot be
// followed is refused by its path, or left out with a warning that names it.
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
  bool loose = false;  // what cannot be followed exactly is left out, each with a warning
  CallForm spelling = CallForm::json;
  std::string_view where = "$";                  // what paths begin with
  std::vector<std::string>* warnings = nullptr;  // "$.properties.age.pattern: why it was left out"
};

// Errors begin with the path of what is wrong: "$.properties.age: ...".
Result<Expr> parse_json_schema(std::string_view text, Budget& budget, const SchemaReading& reading = {});

}  // namespace llada::forms
