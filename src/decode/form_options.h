// The form of the answer as options: one of five ways to say it (forms/form.h), and calls of tools. No field names the
// latter, since they belong to a conversation. The form over a model's tokens is made by whoever has the vocabulary,
// and given to the strategy.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "forms/tool_form.h"

namespace llada::decode {

struct DecodeOptions;
struct Field;

struct FormOptions {
  std::string choice = {};       // texts with | between them
  std::string regex = {};        // the form of the whole answer
  std::string json_schema = {};  // the schema's text
  // parts of it that cannot be followed exactly are left out; set by set_schema(), no field
  bool loose_schema = false;
  int64_t json_object = 0;         // > 0: any object of so many levels
  std::string form_template = {};  // text with typed gaps
  std::string tools = {};          // calls, and beside them text of one of these forms or free (forms/tool_form.h)
};
std::span<const Field> form_fields();

// The rest of the reading of a form, where that takes more than some 20 ms: lines as below, or why it is refused.
using LateReading = std::function<Result<std::vector<std::string>>()>;

// Has the answer be calls of these tools (the list in tool_form.h), or, unless it must call, text as the other options
// have it. most: calls; 0: any number. Invalid: one line that begins with "tools". The result: a line
// for whatever of the tools' schemas was left out, as the tools allow. late: where it is not null, gets the reading if
// that takes long; the options are set all the same.
Result<std::vector<std::string>> set_tools(FormOptions& options, std::string_view tools, bool must_call, int64_t most,
                                           CallForm form = CallForm::json, LateReading* late = nullptr);

// Has the answer be JSON of this schema. strict: parts that cannot be followed exactly are refused; else they are left
// out, and the result has a line for each such place. where: the beginning of the paths in these lines and in errors.
Result<std::vector<std::string>> set_schema(FormOptions& options, std::string_view schema, bool strict,
                                            std::string_view where, LateReading* late = nullptr);

// None: the answer is free.
std::optional<forms::Form> form_of(const FormOptions& options);

}  // namespace llada::decode
