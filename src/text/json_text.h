// JSON as models write it and as templates show it to them.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json/parse.h"
#include "text/call_syntax.h"

namespace llada {

// One line of JSON. CallForm::json: ", " and ": " and no other white space, members in their order, no needless escape.
// CallForm::gemma: Gemma's spelling, with bytes for the marks.
std::string spelled(const Json& value, CallForm form = CallForm::json);
// The same for JSON text, whose numbers are kept verbatim (with CallForm::json one beyond a double is the largest).
// Empty where it is no JSON or 100 levels deep.
std::optional<std::string> spelled_text(std::string_view json, CallForm form = CallForm::json);
bool is_json_number(std::string_view text);
// A member's name, between quotes where it has a character that ends a bare one.
std::string gemma_key(std::string_view name);
// The members by their names in lower case (ASCII), as Jinja's dictsort; empty where `object` is no object.
std::vector<std::pair<std::string, const Json*>> sorted_members(const Json& object);

}  // namespace llada
