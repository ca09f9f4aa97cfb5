#include "formats/json.h"

#include "formats/printable.h"

namespace llada {

std::string value_text(const Json& value) {
  if (value.is_string()) return fmt::format("\"{}\"", printable(value.get_ref<const std::string&>()));
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number_integer())
    return value.is_number_unsigned() ? fmt::to_string(value.get<uint64_t>()) : fmt::to_string(value.get<int64_t>());
  if (value.is_number_float()) return fmt::to_string(value.get<double>());
  return fmt::format("of type {}", value.type_name());
}

}  // namespace llada
