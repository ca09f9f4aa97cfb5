#include "forms/json_schema.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "forms/json_values.h"
#include "forms/regex.h"

namespace llada::forms {
namespace {

constexpr std::string_view kNotes[] = {"title",      "description", "default",   "examples",    "example",
                                       "deprecated", "readOnly",    "writeOnly", "$comment",    "$schema",
                                       "$id",        "$defs",       "$anchor",   "definitions", "contentType"};
constexpr std::string_view kStringKeys[] = {"minLength", "maxLength", "pattern", "format"};
constexpr std::string_view kNumberKeys[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
constexpr std::string_view kArrayKeys[] = {"items", "minItems", "maxItems"};
constexpr std::string_view kObjectKeys[] = {"properties", "required", "additionalProperties"};
constexpr size_t kMostDropped = 100;  // that are named
constexpr int kMostDepth = 200;       // of schemas in schemas, references followed

bool is_in(std::span<const std::string_view> list, std::string_view key) {
  return std::ranges::find(list, key) != list.end();
}

// Whether a $ref leads back to itself is known by the schemas that are being read.
class Reader {
 public:
  Reader(const Json& root, Budget& budget, const SchemaReading& reading)
      : root_(root), budget_(budget), reading_(reading), spelling_(reading.spelling) {}

  Result<Expr> schema(const Json& s, const std::string& where) {
    // A list, an object or a string is made of about eight parts.
    if (!budget_.spend(8) || depth_ == kMostDepth)
      return invalid("{}: the schema is too large or too deep once its references are followed", where.substr(0, 200));
    ++depth_;
    auto read = schema_at(s, where);
    --depth_;
    return read;
  }

 private:
  Result<Expr> schema_at(const Json& s, const std::string& where) {
    if (s.is_boolean()) return s.get<bool>() ? any_ : never();
    if (!s.is_object()) return invalid("{}: found {}, needed a schema", where, spelled(s).substr(0, 60));
    for (const char* key : {"$ref", "anyOf", "allOf", "oneOf"})
      if (s.contains(key) && (key != std::string_view("oneOf") || drops(where + ".oneOf"))) {
        LLADA_TRY_STATUS(only(s, {key}, where, "beside " + std::string(key)));
        if (key == std::string_view("$ref")) return reference(s[key], where + ".$ref");
        return alternatives(s[key], key == std::string_view("allOf"), where + "." + key);
      }
    LLADA_TRY(const auto types, types_of(s, where));
    if (s.contains("const") || s.contains("enum")) return values(s, types, where);
    std::vector<Expr> parts;
    std::vector<std::string_view> known = {"type"};
    for (const std::string& type : types) {
      LLADA_TRY(Expr part, of_type(s, type, where, known));
      parts.push_back(std::move(part));
    }
    for (const auto& [key, value] : s.items())
      if (!is_in(known, key) && !is_in(kNotes, key) && !drops(where + "." + key))
        return invalid("{}.{}: not supported", where, key);
    return either(std::move(parts));
  }

  Status only(const Json& s, std::vector<std::string_view> known, const std::string& where, const std::string& why) {
    for (const auto& [key, value] : s.items())
      if (!is_in(known, key) && !is_in(kNotes, key) && !drops(where + "." + key))
        return invalid("{}.{}: not supported {}", where, key, why);
    return {};
  }

  // Whether what is not supported may be left out.
  bool drops(const std::string& where) {
    auto* const warnings = reading_.loose ? reading_.warnings : nullptr;
    if (warnings != nullptr && warnings->size() < kMostDropped)
      warnings->push_back(where.substr(0, 200) + ": not supported, so the answer need not keep to it");
    return reading_.loose;
  }

  Result<Expr> reference(const Json& to, const std::string& where) {
    const std::string name = to.is_string() ? to.get<std::string>() : spelled(to);
    if (!to.is_string() || !name.starts_with("#") || (name.size() > 1 && name[1] != '/'))
      return invalid("{}: found {}, needed a place in this document, like #/$defs/NAME", where, spelled(to));
    LLADA_TRY_STATUS(budget_.spend(name.size() / 64));
    const Json*& place = places_[name];
    if (place == nullptr) {
      LLADA_TRY(place, place_of(name, where));
    }
    const Json* const at = place;
    int& open = open_[at];
    if (open == kMostNested) return never();
    ++open;
    auto followed = schema(*at, where);
    --open_[at];
    return followed;
  }

  Result<const Json*> place_of(const std::string& name, const std::string& where) {
    const Json* at = &root_;
    for (size_t begin = 2; begin < name.size() + 1 && name.size() > 1;) {
      const size_t end = std::min(name.find('/', begin), name.size());
      std::string part = name.substr(begin, end - begin);
      for (const auto& [code, letter] : {std::pair("~1", "/"), {"~0", "~"}})
        for (size_t found = 0; (found = part.find(code, found)) != std::string::npos; ++found)
          part.replace(found, 2, letter);
      if (!at->is_object() || !at->contains(part))
        return invalid("{}: found {}, which is not there", where, spelled(Json(name)));
      at = &(*at)[part];
      begin = end + 1;
    }
    return at;
  }

  Result<Expr> alternatives(const Json& list, bool all, const std::string& where) {
    const bool first = all && list.is_array() && list.size() > 1 && drops(where);
    if (!list.is_array() || list.empty() || (all && list.size() > 1 && !first))
      return invalid("{}: found {}, needed a list of {}", where,
                     list.is_array() ? std::to_string(list.size()) + " schemas" : spelled(list).substr(0, 60),
                     all ? "one schema" : "schemas");
    std::vector<Expr> parts;
    for (size_t i = 0; i < (first ? 1 : list.size()); ++i) {
      LLADA_TRY(Expr part, schema(list[i], where + "[" + std::to_string(i) + "]"));
      parts.push_back(std::move(part));
    }
    return either(std::move(parts));
  }

  // Where no type is given, what the other keywords are about; of those without, any.
  Result<std::vector<std::string>> types_of(const Json& s, const std::string& where) {
    static constexpr std::string_view kTypes[] = {"string", "number", "integer", "boolean", "null", "array", "object"};
    std::vector<std::string> types;
    if (s.contains("type")) {
      const Json list = s["type"].is_array() ? s["type"] : Json::array({s["type"]});
      for (const Json& type : list) {
        if (!type.is_string() || !is_in(kTypes, type.get<std::string>()))
          return invalid("{}.type: found {}, needed {}", where, spelled(type), fmt::join(kTypes, ", "));
        const auto name = type.get<std::string>();
        if (std::ranges::find(types, name) == types.end()) types.push_back(name);
      }
      if (types.empty()) return invalid("{}.type: found no type, needed one", where);
      return types;
    }
    if (s.contains("const") || s.contains("enum")) return types;
    for (const auto& [keys, type] : {std::pair(std::span<const std::string_view>(kObjectKeys), "object"),
                                     {std::span(kArrayKeys), "array"},
                                     {std::span(kStringKeys), "string"},
                                     {std::span(kNumberKeys), "number"}})
      if (std::ranges::any_of(keys, [&](std::string_view key) { return s.contains(key); })) types.emplace_back(type);
    if (types.empty()) types.emplace_back("any");
    return types;
  }

  static bool is_of(const Json& value, std::string_view type) {
    if (type == "integer")
      return value.is_number_integer() ||
             (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
    return (type == "string" && value.is_string()) || (type == "number" && value.is_number()) ||
           (type == "boolean" && value.is_boolean()) || (type == "null" && value.is_null()) ||
           (type == "array" && value.is_array()) || (type == "object" && value.is_object());
  }

  // A whole number that is too large for 64 bits may have been rounded where it was read.
  static bool may_be_rounded(const Json& value) {
    if (value.is_number_float()) return value.get<double>() <= -0x1p63 || value.get<double>() >= 0x1p64;
    return value.is_structured() && std::ranges::any_of(value, may_be_rounded);
  }

  Result<Expr> values(const Json& s, const std::vector<std::string>& types, const std::string& where) {
    LLADA_TRY_STATUS(only(s, {"const", "enum", "type"}, where, "beside enum and const"));
    const bool listed = s.contains("enum");
    if (listed && (!s["enum"].is_array() || s["enum"].empty()))
      return invalid("{}.enum: found {}, needed a list of values", where, spelled(s["enum"]));
    std::vector<Expr> parts;
    for (size_t i = 0; i < (listed ? s["enum"].size() : 1); ++i) {
      const Json& value = listed ? s["enum"][i] : s["const"];
      LLADA_TRY_STATUS(budget_.spend(1));
      if (may_be_rounded(value))
        return invalid("{}.{}: found {}, needed numbers above -2^63 and below 2^64", where, listed ? "enum" : "const",
                       spelled(value));
      if (s.contains("const") && value != s["const"]) continue;
      if (!types.empty() && std::ranges::none_of(types, [&](const std::string& t) { return is_of(value, t); }))
        continue;
      std::string whole = spelled(value, spelling_);
      LLADA_TRY_STATUS(budget_.spend(whole.size()));
      parts.push_back(text(std::move(whole)));
    }
    if (parts.empty()) return invalid("{}: no value fits both enum or const and the rest", where);
    return either(std::move(parts));
  }

  Result<Expr> of_type(const Json& s, std::string_view type, const std::string& where,
                       std::vector<std::string_view>& known) {
    const auto knows = [&](std::span<const std::string_view> keys) {
      known.insert(known.end(), keys.begin(), keys.end());
    };
    if (type == "any") return any_;
    if (type == "null") return json_null(spelling_);
    if (type == "boolean") return either({text("true"), text("false")});
    if (type == "string") return knows(kStringKeys), string(s, where);
    if (type == "integer" || type == "number") return knows(kNumberKeys), number(s, type == "integer", where);
    if (type == "array") return knows(kArrayKeys), array(s, where);
    return knows(kObjectKeys), object(s, where);
  }

  Result<int64_t> count(const Json& s, const char* key, int64_t fallback, const std::string& where) {
    if (!s.contains(key)) return fallback;
    const Json& value = s[key];
    if (!value.is_number_unsigned() || value.get<uint64_t>() > 1'000'000)
      return invalid("{}.{}: found {}, needed a whole number from 0 to 1000000", where, key, spelled(value));
    return value.get<int64_t>();
  }

  Result<Expr> string(const Json& s, const std::string& where) {
    LLADA_TRY(const int64_t least, count(s, "minLength", 0, where));
    LLADA_TRY(const int64_t most, count(s, "maxLength", -1, where));
    const bool sized = s.contains("minLength") || s.contains("maxLength");
    for (const char* key : {"pattern", "format"}) {
      if (!s.contains(key)) continue;
      const std::string place = where + "." + key;
      const bool beside = sized || (key == std::string_view("format") && s.contains("pattern"));
      if (beside && drops(place)) continue;
      if (beside || (s.contains("pattern") && s.contains("format") && !reading_.loose))
        return invalid("{}.{}: not supported beside another keyword for strings", where, key);
      if (!s[key].is_string()) return invalid("{}.{}: found {}, needed a string", where, key, spelled(s[key]));
      const auto value = s[key].get<std::string>();
      if (key == std::string_view("format")) {
        Expr format = json_format(value, spelling_);
        if (format == nullptr && drops(place)) continue;
        if (format == nullptr)
          return invalid("{}.format: found {}, needed date, time, date-time, uuid, email, hostname, ipv4 or uri", where,
                         spelled(s[key]));
        return paid(std::move(format));
      }
      auto content = parse_regex(value, budget_, letters_in(spelling_), Match::anywhere);
      if (!content && drops(place)) continue;
      if (!content) return invalid("{}.pattern: {}", where, content.error().message);
      if (s.contains("format")) drops(where + ".format");
      return quoted(*std::move(content), spelling_);
    }
    if (most >= 0 && most < least)
      return invalid("{}.maxLength: found {}, which is below minLength {}", where, most, least);
    return json_string(least, most, spelling_);
  }

  Result<std::optional<double>> bound(const Json& s, const char* key, const std::string& where) {
    if (!s.contains(key)) return std::optional<double>();
    const Json& value = s[key];
    if (!value.is_number()) return invalid("{}.{}: found {}, needed a number", where, key, spelled(value));
    const double real = value.get<double>(), size = std::abs(real);
    const bool known = size <= 1e15 && (size >= 1e-15 || size == 0);
    if (!known && drops(where + "." + key)) return std::optional<double>();
    if (!known)
      return invalid("{}.{}: found {}, needed 0 or a number from 1e-15 to 1e15 in size", where, key, spelled(value));
    return std::optional(real);
  }

  Result<Expr> paid(Expr fresh) {
    LLADA_TRY_STATUS(budget_.spend_on(*fresh));
    return fresh;
  }

  Result<Expr> number(const Json& s, bool integer, const std::string& where) {
    LLADA_TRY(const auto least, bound(s, "minimum", where));
    LLADA_TRY(const auto most, bound(s, "maximum", where));
    LLADA_TRY(const auto above, bound(s, "exclusiveMinimum", where));
    LLADA_TRY(const auto below, bound(s, "exclusiveMaximum", where));
    if (integer) {
      std::optional<int64_t> first, last;
      const auto from = [&](double n) { first = std::max(first.value_or(INT64_MIN), static_cast<int64_t>(n)); };
      const auto to = [&](double n) { last = std::min(last.value_or(INT64_MAX), static_cast<int64_t>(n)); };
      if (least) from(std::ceil(*least));
      if (above) from(std::floor(*above) + 1);
      if (most) to(std::floor(*most));
      if (below) to(std::ceil(*below) - 1);
      if (first && last && *last < *first) return invalid("{}: no integer lies between the bounds", where);
      return paid(json_integer(first, last));
    }
    NumberRange r{least, most};
    if (above && (!least || *above >= *least)) r.least = above, r.above = true;
    if (below && (!most || *below <= *most)) r.most = below, r.below = true;
    if (r.least && r.most && (*r.most < *r.least || (*r.most == *r.least && (r.above || r.below))))
      return invalid("{}: no number lies between the bounds", where);
    return r.least || r.most ? paid(json_number(r)) : json_number(r);
  }

  Result<Expr> array(const Json& s, const std::string& where) {
    LLADA_TRY(const int64_t least, count(s, "minItems", 0, where));
    LLADA_TRY(const int64_t most, count(s, "maxItems", -1, where));
    if (most >= 0 && most < least)
      return invalid("{}.maxItems: found {}, which is below minItems {}", where, most, least);
    Expr item = item_;
    if (s.contains("items")) {
      LLADA_TRY(item, schema(s["items"], where + ".items"));
    }
    return json_list(item, least, most, spelling_);
  }

  Result<Expr> object(const Json& s, const std::string& where) {
    if (s.contains("additionalProperties") && !s.contains("properties") && !s.contains("required")) {
      const Json& others = s["additionalProperties"];
      if (!others.is_boolean() && !others.is_object())
        return invalid("{}.additionalProperties: found {}, needed a schema", where, spelled(others).substr(0, 60));
      if (others == true) return json_object(kAnyDepth, spelling_);
      if (others != false) {
        LLADA_TRY(const Expr value, schema(others, where + ".additionalProperties"));
        return json_dictionary(value, spelling_);
      }
    }
    const Json none = Json::object(), list = Json::array();
    const Json& properties = s.contains("properties") ? s["properties"] : none;
    const Json& required = s.contains("required") ? s["required"] : list;
    if (!properties.is_object()) return invalid("{}.properties: needed an object", where);
    if (!required.is_array()) return invalid("{}.required: needed a list of names", where);
    if (!s.contains("properties") && !s.contains("required") && !s.contains("additionalProperties"))
      return json_object(kAnyDepth, spelling_);
    LLADA_TRY_STATUS(budget_.spend(properties.size() + required.size()));
    std::set<std::string_view> names, needs;
    for (const auto& [key, value] : properties.items()) names.insert(key);
    for (const Json& name : required) {
      const bool known = name.is_string() && names.contains(name.get_ref<const std::string&>());
      if (!known && drops(where + ".required")) continue;
      if (!known) return invalid("{}.required: found {}, needed a name among the properties", where, spelled(name));
      needs.insert(name.get_ref<const std::string&>());
    }
    const bool json = spelling_ == CallForm::json;
    std::vector<Expr> parts;
    std::vector<bool> needed;
    const auto add = [&](const std::string& key, const Json& value) -> Status {
      LLADA_TRY_STATUS(budget_.spend(key.size()));
      LLADA_TRY(Expr member, schema(value, where + ".properties." + key.substr(0, 100)));
      parts.push_back(sequence({text(json ? Json(key).dump() + ": " : gemma_key(key) + ":"), std::move(member)}));
      needed.push_back(needs.contains(key));
      return {};
    };
    if (json) {
      for (const auto& [key, value] : properties.items()) LLADA_TRY_STATUS(add(key, value));
    } else {
      for (const auto& [key, value] : sorted_members(properties)) LLADA_TRY_STATUS(add(key, *value));
    }
    return sequence({text("{"), members(std::move(parts), std::move(needed), json ? ", " : ","), text("}")});
  }

  const Json& root_;
  Budget& budget_;
  const SchemaReading& reading_;
  std::map<const Json*, int> open_;
  std::map<std::string, const Json*> places_;  // of references
  const CallForm spelling_;
  const Expr any_ = json_any(kAnyDepth, spelling_), item_ = json_any(kAnyDepth - 1, spelling_);
  int depth_ = 0;
};

}  // namespace

Result<Expr> parse_json_schema(std::string_view text, Budget& budget, const SchemaReading& reading) {
  LLADA_TRY(const Json root, parse_json_text(text, "json_schema"));
  return Reader(root, budget, reading).schema(root, std::string(reading.where));
}

}  // namespace llada::forms
