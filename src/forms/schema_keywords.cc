// What the keywords of one schema ask for by themselves, and which schemas stand at a member and an item of a case.
#include <algorithm>
#include <cmath>
#include <string>

#include "forms/schema_cases.h"

namespace llada::forms {
namespace {

constexpr int64_t kMostCount = 1'000'000;

// A whole number that is too large for 64 bits may have been rounded where it was read.
bool may_be_rounded(const Json& value) {
  if (value.is_number_float()) return value.get<double>() <= -0x1p63 || value.get<double>() >= 0x1p64;
  return value.is_structured() && std::ranges::any_of(value, may_be_rounded);
}

std::string found(const Json& value, std::string_view needed) {
  return fmt::format("found {}, needed {}", spelled(value).substr(0, 60), needed);
}

bool is_false(const Clause& clause) {
  return clause.schema != nullptr && clause.schema->is_boolean() && clause.schema->get<bool>() == clause.denied;
}

const Json* member_of(const Json* object, std::string_view name) {
  if (object == nullptr) return nullptr;
  const auto at = object->find(std::string(name));
  return at == object->end() ? nullptr : &*at;
}

}  // namespace

bool asserts(std::string_view key) {
  constexpr std::string_view kAsserts[] = {"type",
                                           "minimum",
                                           "exclusiveMinimum",
                                           "maximum",
                                           "exclusiveMaximum",
                                           "minLength",
                                           "maxLength",
                                           "minItems",
                                           "maxItems",
                                           "minProperties",
                                           "maxProperties",
                                           "oneOf",
                                           "if",
                                           "items",
                                           "prefixItems",
                                           "additionalItems",
                                           "contains",
                                           "uniqueItems",
                                           "multipleOf",
                                           "format",
                                           "patternProperties",
                                           "propertyNames",
                                           "dependentRequired",
                                           "dependencies",
                                           "$dynamicRef",
                                           "$recursiveRef",
                                           "dependentSchemas",
                                           "unevaluatedItems",
                                           "unevaluatedProperties",
                                           "additionalProperties"};
  return std::ranges::find(kAsserts, key) != std::end(kAsserts);
}

unsigned bits_of_type(std::string_view type) {
  if (type == "null") return Case::kNull;
  if (type == "boolean") return Case::kBoolean;
  if (type == "integer") return Case::kInteger;
  if (type == "number") return Case::kInteger | Case::kNumber;
  if (type == "string") return Case::kString;
  if (type == "array") return Case::kArray;
  return type == "object" ? unsigned{Case::kObject} : 0;
}

unsigned bits_of(const Json& value) {
  if (value.is_null()) return Case::kNull;
  if (value.is_boolean()) return Case::kBoolean;
  if (value.is_number()) return is_of_type(value, "integer") ? Case::kInteger : Case::kNumber;
  return value.is_string() ? Case::kString : value.is_array() ? Case::kArray : Case::kObject;
}

Result<Case> Cases::keywords(const Json& s, const Place* place) {
  Case c;
  for (const auto& [key, value] : s.items()) LLADA_TRY_STATUS(keyword(key, value, s, place, c));
  return c;
}

// Keywords that no draft has say nothing, and neither do formats with other names.
Status Cases::keyword(const std::string& key, const Json& k, const Json& s, const Place* place, Case& c) {
  const auto at = [&] { return document_.below(place, key); };
  const auto about = [&](unsigned types) { c.hints |= types, c.open = false; };
  if (key == "type") {
    unsigned bits = 0;
    for (const Json& type : k.is_array() ? k : Json::array({k})) {
      const unsigned one = type.is_string() ? bits_of_type(type.get_ref<const std::string&>()) : 0;
      const bool any = document_.draft() == 3 && type == "any";
      if (one == 0 && !any)
        return document_.leave_out(at(), found(type, "string, number, integer, boolean, null, array, object"));
      bits |= any ? unsigned{Case::kAll} : one;
    }
    if (bits == 0) return document_.leave_out(at(), "found no type, needed one");
    c.types &= bits, c.typed = true, c.open = false;
    return {};
  }
  if (key == "const" || key == "enum") return values(key, k, place, c);
  if (key == "minimum" || key == "maximum" || key == "exclusiveMinimum" || key == "exclusiveMaximum")
    return bound(key, k, s, place, c);
  if (key == "multipleOf" || (key == "divisibleBy" && document_.draft() == 3)) {
    if (!k.is_number() || k.get<double>() <= 0) return document_.leave_out(at(), found(k, "a number above 0"));
    about(Case::kInteger | Case::kNumber);
    c.steps.push_back({&k, at()});
  } else if (key == "minLength" || key == "maxLength") {
    LLADA_TRY(const auto n, count(k, at()));
    if (!n) return {};
    about(Case::kString);
    (key == "minLength" ? c.shortest : c.longest) = *n;
  } else if (key == "pattern" || key == "format") {
    if (!k.is_string()) return document_.leave_out(at(), found(k, "a string"));
    const auto& text = k.get_ref<const std::string&>();
    if (key == "format" && json_format(text) == nullptr) return {};
    about(Case::kString);
    (key == "pattern" ? c.patterns : c.formats).push_back({text, at(), false});
  } else {
    LLADA_TRY_STATUS(keywords_of_lists(key, k, s, place, c));
    return keywords_of_objects(key, k, s, place, c);
  }
  return {};
}

Status Cases::values(const std::string& key, const Json& k, const Place* place, Case& c) {
  if (key == "enum" && (!k.is_array() || k.empty()))
    return document_.leave_out(document_.below(place, key), found(k, "a list of values"));
  std::vector<const Json*> values;
  const auto add = [&](const Json& value) -> Status {
    LLADA_TRY_STATUS(document_.budget().spend(1));
    lost_ |= may_be_rounded(value);
    if (may_be_rounded(value))
      return document_.leave_out(document_.below(place, key), found(value, "numbers above -2^63 and below 2^64"));
    values.push_back(&value);
    return {};
  };
  if (key == "const") LLADA_TRY_STATUS(add(k));
  if (key == "enum")
    for (const Json& value : k) LLADA_TRY_STATUS(add(value));
  if (values.empty()) return {};  // left out
  Case listed;
  listed.values = std::move(values), listed.open = false;
  meet(c, listed);
  return {};
}

// Without a count where it was left out.
Result<std::optional<int64_t>> Cases::count(const Json& k, const Place* place) {
  const double n = k.is_number() ? k.get<double>() : -1;
  if (n >= 0 && n == std::floor(n)) return static_cast<int64_t>(std::min<double>(n, kMostCount));
  LLADA_TRY_STATUS(document_.leave_out(place, found(k, "a whole number from 0 on")));
  return std::optional<int64_t>();
}

// A bound beyond what can be compared is drawn in to the next one that can.
Status Cases::bound(const std::string& key, const Json& k, const Json& s, const Place* place, Case& c) {
  const bool least = key.ends_with("inimum"), exclusive = key.starts_with("excl");
  if (exclusive && k.is_boolean()) return {};  // read with its neighbour
  const Place* const at = document_.below(place, key);
  if (!k.is_number()) return document_.leave_out(at, found(k, "a number"));
  double bound = k.get<double>();
  bool out = exclusive || s.value(least ? "exclusiveMinimum" : "exclusiveMaximum", Json()) == true;
  if (least ? bound > kMostBound : bound < -kMostBound)
    return document_.leave_out(at, found(k, "a number from -1e15 to 1e15"));
  if (std::abs(bound) > kMostBound) bound = std::copysign(kMostBound, bound), lost_ = true;
  if (bound != 0 && std::abs(bound) < kLeastBound)
    bound = (bound > 0) == least ? std::copysign(kLeastBound, bound) : 0, out = false, lost_ = true;
  Case bounded;
  (least ? bounded.range.least : bounded.range.most) = bound;
  (least ? bounded.range.above : bounded.range.below) = out;
  bounded.hints = Case::kInteger | Case::kNumber, bounded.open = false;
  meet(c, bounded);
  return {};
}

Status Cases::keywords_of_lists(const std::string& key, const Json& k, const Json& s, const Place* place, Case& c) {
  const auto at = [&] { return document_.below(place, key); };
  const bool draft_2020 = s.contains("prefixItems");
  if (key == "minItems" || key == "maxItems") {
    LLADA_TRY(const auto n, count(k, at()));
    if (!n) return {};
    (key == "minItems" ? c.least_items : c.most_items) = *n;
  } else if (key == "prefixItems" || (key == "items" && k.is_array())) {
    if (!k.is_array()) return document_.leave_out(at(), found(k, "a list of schemas"));
    const char* rest = draft_2020 ? "items" : "additionalItems";
    Case::List list{&k, {}, at()};
    if (s.contains(rest)) list.rest = {&s[rest], document_.below(place, rest)};
    c.lists.push_back(list);
  } else if (key == "items" && !draft_2020) {
    c.lists.push_back({nullptr, {&k, at()}, at()});
  } else if (key == "uniqueItems") {
    if (k != true) return {};
    c.unique = at();
  } else if (key == "contains") {
    Case::Held held{{&k, at()}, 1};
    if (s.contains("minContains")) {
      LLADA_TRY(const auto n, count(s["minContains"], document_.below(place, "minContains")));
      held.least = n.value_or(1);
    }
    if (s.contains("maxContains"))
      LLADA_TRY_STATUS(document_.leave_out(document_.below(place, "maxContains"), "not supported"));
    if (held.least == 0) return {};
    c.held.push_back(held);
    c.least_items = std::max(c.least_items, held.least);
  } else {
    return {};
  }
  c.hints |= Case::kArray, c.open = false;
  return {};
}

Status Cases::keywords_of_objects(const std::string& key, const Json& k, const Json& s, const Place* place, Case& c) {
  const auto at = [&] { return document_.below(place, key); };
  const auto object = [&](const char* name) { return s.contains(name) && s[name].is_object() ? &s[name] : nullptr; };
  if (key == "minProperties" || key == "maxProperties") {
    LLADA_TRY(const auto n, count(k, at()));
    if (!n) return {};
    (key == "minProperties" ? c.least_members : c.most_members) = *n;
    if (key == "minProperties") c.counted = at();
  } else if (key == "required") {
    if (k.is_boolean() && document_.draft() <= 4) return {};  // draft 3, read with the properties
    if (!k.is_array()) return document_.leave_out(at(), found(k, "a list of names"));
    for (const Json& name : k) {
      if (!name.is_string()) return document_.leave_out(at(), found(name, "a name"));
      LLADA_TRY_STATUS(document_.budget().spend(1));
      const std::string_view text = name.get_ref<const std::string&>();
      c.required.push_back(text);
    }
  } else if (key == "properties" || key == "patternProperties" || key == "additionalProperties") {
    if (key == "additionalProperties" ? !k.is_object() && !k.is_boolean() : !k.is_object())
      return document_.leave_out(at(), found(k, key == "additionalProperties" ? "a schema" : "an object"));
    // One for the three, by the first of them.
    if ((key != "properties" && object("properties") != nullptr) ||
        (key == "additionalProperties" && object("patternProperties") != nullptr))
      return {};
    Case::Object made{object("properties"), object("patternProperties"), {}, place};
    if (s.contains("additionalProperties"))
      made.additional = {&s["additionalProperties"], document_.below(place, "additionalProperties")};
    c.objects.push_back(made);
    if (made.properties != nullptr && document_.draft() <= 4)
      for (const auto& [name, schema] : made.properties->items())
        if (schema.is_object() && schema.value("required", Json()) == true) c.required.push_back(name);
  } else if (key == "propertyNames") {
    c.names.push_back({&k, at()});
  } else {
    return {};
  }
  c.hints |= Case::kObject, c.open = false;
  return {};
}

Result<std::optional<Clauses>> Cases::member(const Case& c, std::string_view name) {
  constexpr std::nullopt_t none = std::nullopt;
  Clauses clauses;
  if (std::ranges::find(c.forbidden, name) != c.forbidden.end()) return none;
  // Members are searched one by one.
  int64_t steps = 10 * c.size();
  for (const Case::Object& o : c.objects) steps += (o.properties != nullptr ? std::ssize(*o.properties) : 0) / 4;
  LLADA_TRY_STATUS(document_.budget().step(steps));
  for (const Clause& clause : c.names) {
    const Json text = std::string(name);
    const auto fits = holds(document_, *clause.schema, text);
    if (fits == false) return none;
    if (!fits)
      LLADA_TRY_STATUS(document_.leave_out(clause.place, "cannot be checked for all member names of this object"));
  }
  const auto matches = [&](const std::string& regex, const Place* place) -> Result<bool> {
    LLADA_TRY_STATUS(document_.budget().step(30 + std::ssize(name)));
    if (const Automaton* automaton = document_.pattern(regex)) return automaton->fits(name);
    LLADA_TRY_STATUS(document_.leave_out(document_.below(document_.below(place, "patternProperties"), regex),
                                         "this regular expression is not supported"));
    return false;
  };
  std::vector<char> evaluates;
  for (const Case::Object& o : c.objects) {
    bool matched = false;
    if (const Json* schema = member_of(o.properties, name)) {
      matched = true;
      clauses.push_back({schema, document_.below(document_.below(o.place, "properties"), name)});
    }
    if (o.patterns != nullptr)
      for (const auto& [regex, schema] : o.patterns->items()) {
        LLADA_TRY(const bool fits, matches(regex, o.place));
        matched |= fits;
        if (fits) clauses.push_back({&schema, document_.below(document_.below(o.place, "patternProperties"), regex)});
      }
    evaluates.push_back(matched || o.additional.schema != nullptr);
    if (!matched && o.additional.schema != nullptr) clauses.push_back(o.additional);
  }
  for (const auto& [member, clause] : c.members)
    if (member == name) clauses.push_back(clause);
  for (const Case::Closed& closed : c.closed_objects)
    if (std::none_of(evaluates.begin() + static_cast<std::ptrdiff_t>(closed.begin),
                     evaluates.begin() + static_cast<std::ptrdiff_t>(closed.end), [](char e) { return e != 0; }))
      clauses.push_back(closed.rest);
  if (std::ranges::any_of(clauses, is_false)) return none;
  return clauses;
}

// index -1: behind all that have schemas of their own.
std::optional<Clauses> Cases::item(const Case& c, int64_t index) {
  Clauses clauses;
  std::vector<char> evaluates;
  for (const Case::List& list : c.lists) {
    const bool first = list.first != nullptr && index >= 0 && index < std::ssize(*list.first);
    if (first)
      clauses.push_back({&(*list.first)[static_cast<size_t>(index)], document_.below(list.place, "", index)});
    else if (list.rest.schema != nullptr)
      clauses.push_back(list.rest);
    evaluates.push_back(first || list.rest.schema != nullptr);
  }
  for (const Case::Closed& closed : c.closed_lists)
    if (std::none_of(evaluates.begin() + static_cast<std::ptrdiff_t>(closed.begin),
                     evaluates.begin() + static_cast<std::ptrdiff_t>(closed.end), [](char e) { return e != 0; }))
      clauses.push_back(closed.rest);
  if (std::ranges::any_of(clauses, is_false)) return {};
  return clauses;
}

// depth: of members and items that are looked at. Types that no value can have go. Reading a member's schema may ask
// the same of another member, and in a schema of itself so for ever: further than kMostLooks all counts as possible.
Result<bool> Cases::is_possible(Case& c, int depth) {
  const auto some = [&](const std::optional<Clauses>& clauses) -> Result<bool> {
    if (!clauses) return false;
    constexpr int kMostLooks = 2;
    if (depth == 0 || looks_ == kMostLooks) return true;
    ++looks_;
    auto cases = of(*clauses);
    if (cases) cases = possible(*std::move(cases), depth - 1);
    --looks_;
    if (!cases) return std::unexpected(cases.error());
    return !cases->empty();
  };
  if (c.types & Case::kObject)
    for (const std::string_view name : c.required) {
      LLADA_TRY(const auto clauses, member(c, name));
      LLADA_TRY(const bool fits, some(clauses));
      if (!fits) {
        c.types &= ~Case::kObject;
        break;
      }
    }
  if (c.types & Case::kArray)
    for (int64_t i = 0; i < std::min<int64_t>(c.least_items, 4); ++i) {
      LLADA_TRY(const bool fits, some(item(c, i)));
      if (!fits) {
        c.types &= ~Case::kArray;
        break;
      }
    }
  return meet(c, Case());
}

int64_t Case::size() const {
  const auto all = [](const auto&... lists) { return (std::ssize(lists) + ...); };
  return all(others, steps, patterns, formats, lists, held, objects, required, forbidden, names, members,
             closed_objects, closed_lists) +
         (values ? std::ssize(*values) : 0);
}

// Cases are copied and met as wholes.
Status Cases::take_steps(const List& in) {
  int64_t steps = 0;
  for (const Case& c : in) steps += 30 + 10 * c.size();
  return document_.budget().step(steps);
}

Result<std::vector<Case>> Cases::possible(List in, int depth) {
  LLADA_TRY_STATUS(take_steps(in));
  List out;
  for (Case& c : in) {
    LLADA_TRY(const bool fits, is_possible(c, depth));
    if (fits) out.push_back(std::move(c));
  }
  return out;
}

}  // namespace llada::forms
