#include "text/json_text.h"

#include <utility>

namespace llada {

std::string spelled(const nlohmann::ordered_json& value) {
  std::string out;
  const char* separator = "";
  if (value.is_object()) {
    for (const auto& [key, member] : value.items())
      out += std::exchange(separator, ", ") + nlohmann::ordered_json(key).dump() + ": " + spelled(member);
    return "{" + out + "}";
  }
  if (!value.is_array()) return value.dump();
  for (const auto& item : value) out += std::exchange(separator, ", ") + spelled(item);
  return "[" + out + "]";
}

}  // namespace llada
