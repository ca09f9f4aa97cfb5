#include "formats/hf_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/json.h"

namespace llada {

using nlohmann::json;

const json* HfFields::find(std::string_view name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const json* HfFields::find(Names names) const { return find(spelling(names)); }

std::string_view HfFields::spelling(Names names) const {
  for (const std::string_view name : names)
    if (find(name) != nullptr) return name;
  return *names.begin();
}

std::unexpected<Error> HfFields::wrong(std::string_view name, const json& value, std::string_view needed) const {
  return invalid("{}: {}{} is {}, {} needed", file_, where_, name, value_text(value), needed);
}

Result<int64_t> HfFields::integer(Names names, std::optional<int64_t> absent) const {
  const json* value = find(names);
  if (value == nullptr && absent) return *absent;
  if (value == nullptr) return invalid("{}: {}{} is missing", file_, where_, fmt::join(names, " or "));
  if (value->is_number_float()) {
    const double number = value->get<double>();
    if (number != std::floor(number) || std::fabs(number) > 1e15) return wrong(spelling(names), *value, "an integer");
    return static_cast<int64_t>(number);
  }
  if (!value->is_number_integer() || (value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{1} << 62))
    return wrong(spelling(names), *value, "an integer");
  return value->get<int64_t>();
}

Result<double> HfFields::real(Names names, double absent) const {
  const json* value = find(names);
  if (value == nullptr) return absent;
  if (!value->is_number()) return wrong(spelling(names), *value, "a number");
  const double given = value->get<double>();
  if (!(given >= 0 && given <= 1e30)) return wrong(spelling(names), *value, "a finite positive number");
  return given;
}

Result<float> HfFields::number(Names names, double absent) const {
  LLADA_TRY(const double given, real(names, absent));
  return static_cast<float>(given);
}

Result<bool> HfFields::boolean(Names names, bool absent) const {
  const json* value = find(names);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) return wrong(spelling(names), *value, "true or false");
  return value->get<bool>();
}

Result<std::vector<int32_t>> HfFields::tokens(std::string_view name) const {
  const json* value = find(name);
  std::vector<int32_t> ids;
  if (value == nullptr) return ids;
  const json list = value->is_array() ? *value : json::array({*value});
  constexpr size_t kMost = 64;
  if (list.size() > kMost)
    return invalid("{}: {}{} lists {} ids, at most {} needed", file_, where_, name, list.size(), kMost);
  for (const json& id : list) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > std::numeric_limits<int32_t>::max())
      return wrong(name, id, "a token id");
    ids.push_back(static_cast<int32_t>(id.get<int64_t>()));
  }
  return ids;
}

Result<HfFields> HfFields::object(std::string_view name) const {
  const json* value = find(name);
  if (value == nullptr) return invalid("{}: {}{} is missing, an object needed", file_, where_, name);
  if (!value->is_object()) return wrong(name, *value, "an object");
  return HfFields(*value, fmt::format("{}{}.", where_, name), file_);
}

Status HfFields::only(std::string_view name, std::initializer_list<json> allowed) const {
  const json* value = find(name);
  if (value == nullptr || std::ranges::find(allowed, *value) != allowed.end()) return {};
  return wrong(name, *value, value_text(*allowed.begin()));
}

}  // namespace llada
