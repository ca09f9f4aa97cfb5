// Answers of a model that may call tools, as an expression: text and behind it calls (text/call_syntax.h), or calls
// alone. Free text has no call mark, so that whatever looks like a call is one. The form is written as JSON:
//
//   {"tools": [{"name": "add", "parameters": SCHEMA}, ...], "text": null, "most": 1, "gemma": false}
//
//   parameters  a schema of objects (json_schema.h); absent: an empty object
//   loose       true: parts of the schema that cannot be followed exactly are left out
//   where       begins paths into the schema; absent: tools[N].parameters
//   text        null: the answer is calls; "free": it is text, calls, or both; an object {"kind": N, "form": TEXT,
//               "loose": false}: it is calls, or text of that form (form.h)
//   most        calls of an answer; 0: any number
//   gemma       true: calls are written as Gemma's models do (text/call_syntax.h)
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "forms/expression.h"
#include "forms/form.h"
#include "text/call_syntax.h"

namespace llada::forms {

// That JSON. tools: the list. said: the form of the text beside the calls; none: free text, or with free false no text.
std::string tools_text(std::string_view tools, const std::optional<Form>& said, bool free, int64_t most,
                       CallForm form = CallForm::json);

// Errors and warnings begin with the place: "tools[2].parameters.properties.a.pattern: ...". warnings: gets a line for
// each part that was left out; may be null.
Result<Expr> parse_tools(std::string_view text, Budget& budget, std::vector<std::string>* warnings = nullptr);

}  // namespace llada::forms
