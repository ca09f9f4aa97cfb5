#include "engine/json_fields.h"

#include <algorithm>
#include <cmath>

#include "json/parse.h"

namespace llada {
namespace {

// A line of a recording lists at most a few numbers per canvas position.
constexpr JsonLimits kLimits{.depth = 8, .values = size_t{1} << 22, .run_bytes = size_t{1} << 17};

Result<int64_t> whole(const Json& value, int64_t least, int64_t most, const std::string& where, const char* name) {
  const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                                               : value.is_number_integer();
  const int64_t number = fits ? value.get<int64_t>() : 0;
  if (!fits || number < least || number > most)
    return invalid("{}: field '{}': found {}, needed a whole number from {} to {}", where, name, shown(value), least,
                   most);
  return number;
}

Result<double> finite(const Json& value, double least, double most, const std::string& where, const char* name) {
  const double number = value.is_number() ? value.get<double>() : NAN;
  if (!(std::isfinite(number) && number >= least && number <= most))
    return invalid("{}: field '{}': found {}, needed a number from {} to {}", where, name, shown(value), least, most);
  return number;
}

}  // namespace

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return text;
}

Result<JsonFields> JsonFields::parse(std::string_view text, std::string where) {
  LLADA_TRY(auto object, parse_json_object(text, where, kLimits));
  return JsonFields(std::move(object), std::move(where));
}

Result<const Json*> JsonFields::take(const char* name) {
  const auto found = object_.find(name);
  if (found == object_.end()) return invalid("{}: field '{}' is missing", where_, name);
  taken_.emplace_back(name);
  return &*found;
}

Result<int64_t> JsonFields::integer(const char* name, int64_t least, int64_t most) {
  LLADA_TRY(const Json* value, take(name));
  return whole(*value, least, most, where_, name);
}

Result<double> JsonFields::real(const char* name, double least, double most) {
  LLADA_TRY(const Json* value, take(name));
  return finite(*value, least, most, where_, name);
}

Result<std::string> JsonFields::text(const char* name) {
  LLADA_TRY(const Json* value, take(name));
  if (!value->is_string()) return invalid("{}: field '{}': found {}, needed a string", where_, name, shown(*value));
  return value->get<std::string>();
}

Result<JsonFields> JsonFields::object(const char* name) {
  LLADA_TRY(const Json* value, take(name));
  if (!value->is_object()) return invalid("{}: field '{}': found {}, needed an object", where_, name, shown(*value));
  return JsonFields(*value, fmt::format("{}: {}", where_, name));
}

Result<std::vector<int32_t>> JsonFields::integers(const char* name, int64_t least, int64_t most) {
  LLADA_TRY(const Json* value, take(name));
  if (!value->is_array()) return invalid("{}: field '{}': found {}, needed a list", where_, name, shown(*value));
  std::vector<int32_t> out;
  for (const Json& item : *value) {
    LLADA_TRY(const int64_t number, whole(item, least, most, where_, name));
    out.push_back(static_cast<int32_t>(number));
  }
  return out;
}

Result<std::vector<double>> JsonFields::reals(const char* name, double least, double most) {
  LLADA_TRY(const Json* value, take(name));
  if (!value->is_array()) return invalid("{}: field '{}': found {}, needed a list", where_, name, shown(*value));
  std::vector<double> out;
  for (const Json& item : *value) {
    LLADA_TRY(const double number, finite(item, least, most, where_, name));
    out.push_back(number);
  }
  return out;
}

Status JsonFields::tuples(const char* name, size_t width, const std::function<Status(const Json&)>& item) {
  LLADA_TRY(const Json* value, take(name));
  if (!value->is_array()) return invalid("{}: field '{}': found {}, needed a list", where_, name, shown(*value));
  for (const Json& entry : *value) {
    if (!entry.is_array() || entry.size() != width)
      return invalid("{}: field '{}': found {}, needed lists of {}", where_, name, shown(entry), width);
    LLADA_TRY_STATUS(item(entry));
  }
  return {};
}

Status JsonFields::head(std::string_view format, int64_t version) {
  LLADA_TRY(const std::string found, text("format"));
  if (found != format) return invalid("{}: field 'format': found '{}', needed '{}'", where_, found, format);
  if (const auto read = integer("version", version, version); !read) return std::unexpected(read.error());
  return {};
}

Status JsonFields::same(const char* name, const std::string& needed, std::string_view made, std::string_view who) {
  LLADA_TRY(const std::string found, text(name));
  if (found != needed)
    return invalid("{}: {} with {} '{}', {} has '{}'; name another file", where_, made, name, found, who, needed);
  return {};
}

Status JsonFields::finish() const {
  for (const auto& [name, value] : object_.items())
    if (std::ranges::find(taken_, name) == taken_.end())
      return invalid("{}: field '{}' is not known here", where_, name);
  return {};
}

std::string json_line(const Json& object) { return object.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n'; }

Status for_each_json_line(std::string_view text, const std::string& source,
                          const std::function<Status(std::string_view line, std::string where)>& visit) {
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    LLADA_TRY_STATUS(visit(line, fmt::format("{}:{}", source, number)));
  }
  return {};
}

}  // namespace llada
