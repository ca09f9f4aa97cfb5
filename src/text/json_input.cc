#include "text/json_input.h"

#include <limits>

namespace llada {

Result<Json> parse_json(std::string_view text, const std::string& source) {
  constexpr size_t kAny = std::numeric_limits<size_t>::max();  // a vocabulary is long
  LLADA_TRY(JsonDocument read,
            parse_json_document(text, source, {.depth = kMaxJsonDepth, .values = kAny, .run_bytes = kAny}));
  return std::move(read.root);
}

const Json* find_member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(name);
  return it != object.end() ? &*it : nullptr;
}

Result<bool> bool_member(const Json& object, const char* name, bool fallback, const std::string& where) {
  const Json* value = find_member(object, name);
  if (value == nullptr || value->is_null()) return fallback;
  if (!value->is_boolean()) return invalid("{}.{} is {}, needed true or false", where, name, kind_of(*value));
  return value->get<bool>();
}

Result<std::string> string_member(const Json& object, const char* name, const std::string& fallback,
                                  const std::string& where) {
  const Json* value = find_member(object, name);
  if (value == nullptr || value->is_null()) return fallback;
  if (!value->is_string()) return invalid("{}.{} is {}, needed a string", where, name, kind_of(*value));
  return value->get_ref<const std::string&>();
}

Result<int64_t> index_member(const Json& object, const char* name, int64_t limit, const std::string& where) {
  const Json* value = find_member(object, name);
  if (value == nullptr) return invalid("{}.{} is missing", where, name);
  if (!value->is_number_unsigned() || value->get<uint64_t>() >= static_cast<uint64_t>(limit))
    return invalid("{}.{} is {}, needed a whole number below {}", where, name,
                   value->is_number() ? value->dump() : std::string(kind_of(*value)), limit);
  return static_cast<int64_t>(value->get<uint64_t>());
}

std::string_view kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "true or false";
    default:
      return "a number";
  }
}

}  // namespace llada
