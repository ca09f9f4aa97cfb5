#include "formats/json.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "formats/printable.h"

namespace llada {

Result<nlohmann::json> parse_json_object(std::string_view text, std::string_view file, const JsonLimits& limits) {
  using nlohmann::json;
  LLADA_TRY_STATUS(check_json_limits(text, file, limits));
  std::vector<std::set<std::string>> open;  // fields of the objects that are being parsed
  std::string duplicate;
  const auto watch = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end && !open.empty()) open.pop_back();
    if (event == json::parse_event_t::key && !open.empty()) {
      const auto& field = value.get_ref<const std::string&>();
      if (!open.back().insert(field).second && duplicate.empty()) duplicate = fmt::format("\"{}\"", printable(field));
    }
    return true;
  };
  json root = json::parse(text, watch, false);
  if (root.is_discarded()) return invalid("{}: not valid JSON", file);
  if (!duplicate.empty()) return invalid("{}: field {} appears twice", file, duplicate);
  if (!root.is_object()) return invalid("{}: the JSON is not an object", file);
  return root;
}

}  // namespace llada
