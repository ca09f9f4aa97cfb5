// JSON as models write it and as templates show it to them.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llada {

using OrderedJson = nlohmann::ordered_json;  // members in the order in which they are written

// ", " and ": " and no other white space, members in their order, no escape that is not needed.
std::string spelled(const OrderedJson& value);
// A value in Gemma's spelling, with bytes for the marks.
std::string gemma_spelled(const OrderedJson& value);
// The same of JSON text, whose numbers are written as they stand there; nothing where it is no JSON or 100 levels deep.
std::optional<std::string> gemma_spelled_text(std::string_view json);
bool is_json_number(std::string_view text);
// A member's name, between quotes where it has what ends a bare one.
std::string gemma_key(std::string_view name);
// By their names in lower case (ASCII), as Jinja's dictsort; none for what is no object.
std::vector<std::pair<std::string, const OrderedJson*>> sorted_members(const OrderedJson& object);

}  // namespace llada
