// JSON as models write it and as templates show it to them.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace llada {

// ", " and ": " and no other white space, members in their order, no escape that is not needed.
std::string spelled(const nlohmann::ordered_json& value);

}  // namespace llada
