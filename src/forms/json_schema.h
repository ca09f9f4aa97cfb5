// JSON Schema as an expression, drafts 4 to 2020-12. Every text that fits is valid by the schema. Not every valid text
// fits: answers have one spelling (json_values.h), members stand in the schema's order, and objects with `properties`
// have no others. docs/forms.md has the keywords that are followed.
//
// A document (schema_document.h) is read value by value: the schemas that one value must fit become cases
// (schema_cases.h), and those an expression (schema_write.h). Equal parts are made once, so the time is that of the
// schema's size; Budget bounds its growth by branches and references. A part that cannot be followed exactly is refused
// by its path, or left out with a warning that names it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "forms/expression.h"
#include "text/call_syntax.h"

namespace llada::forms {

inline constexpr int kMostNested = 4;  // of the same reference inside itself
inline constexpr int kAnyDepth = 3;    // levels of values that a schema leaves open

struct SchemaReading {
  bool loose = false;  // leaves out parts that cannot be followed exactly, each with a warning
  CallForm spelling = CallForm::json;
  std::string_view where = "$";                  // begins all paths
  std::vector<std::string>* warnings = nullptr;  // "$.properties.age.pattern: why it was left out"
};

// Errors begin with the path of the wrong part: "$.properties.age: ...".
Result<Expr> parse_json_schema(std::string_view text, Budget& budget, const SchemaReading& reading = {});

}  // namespace llada::forms
