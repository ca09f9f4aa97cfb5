// What the answer must fit, as options: one of five ways to say it (forms/form.h); and calls of tools, which no field
// says, since they belong to a conversation. The form over a model's tokens is
// made by whoever has the vocabulary, and given to the strategy.
#pragma once
#include <cstdint>
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
  std::string choice = {};         // texts with | between them
  std::string regex = {};          // what the whole answer fits
  std::string json_schema = {};    // the schema's text
  bool loose_schema = false;       // what of it cannot be followed exactly is left out; of set_schema(), no field
  int64_t json_object = 0;         // > 0: any object of so many levels
  std::string form_template = {};  // text with typed gaps
  std::string tools = {};          // calls, and beside them text of one of these forms or free (forms/tool_form.h)
};
std::span<const Field> form_fields();

// Has the answer be calls of these tools (the list in tool_form.h), or, unless it must call, text as the other options
// have it. most: calls; 0: any number. Invalid: one line that begins with "tools". The result: a line
// for whatever of the tools' schemas was left out, as the tools allow.
Result<std::vector<std::string>> set_tools(FormOptions& options, std::string_view tools, bool must_call, int64_t most,
                                           CallForm form = CallForm::json);

// Has the answer be JSON of this schema. strict: what cannot be followed exactly is refused; else it is left out, and
// the result has a line for each such place. where: what the paths in these lines and in errors begin with.
Result<std::vector<std::string>> set_schema(FormOptions& options, std::string_view schema, bool strict,
                                            std::string_view where);

// None: the answer is free.
std::optional<forms::Form> form_of(const FormOptions& options);

}  // namespace llada::decode
