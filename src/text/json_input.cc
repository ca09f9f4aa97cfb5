#include "text/json_input.h"

#include <limits>

#include "json/limits.h"
#include "text/utf8.h"

namespace llada {
namespace {

// Accepts everything; keeps where the parser gave up.
struct ErrorPosition {
  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(Json::number_integer_t) { return true; }
  bool number_unsigned(Json::number_unsigned_t) { return true; }
  bool number_float(Json::number_float_t, const Json::string_t&) { return true; }
  bool string(Json::string_t&) { return true; }
  bool binary(Json::binary_t&) { return true; }
  bool start_object(std::size_t) { return true; }
  bool key(Json::string_t&) { return true; }
  bool end_object() { return true; }
  bool start_array(std::size_t) { return true; }
  bool end_array() { return true; }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) {
    offset = position;
    return false;
  }
  std::size_t offset = 0;
};

}  // namespace

Result<Json> parse_json(std::string_view text, const std::string& source) {
  constexpr size_t kAny = std::numeric_limits<size_t>::max();  // a vocabulary is long
  LLADA_TRY_STATUS(check_json_limits(text, source, {.depth = kMaxJsonDepth, .values = kAny, .run_bytes = kAny}));
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    ErrorPosition position;
    Json::sax_parse(text.begin(), text.end(), &position);
    if (position.offset > text.size()) return invalid("{}: the JSON ends too early, at byte {}", source, text.size());
    return invalid("{}: not valid JSON at byte {} of {}", source, position.offset, text.size());
  }
  return json;
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
