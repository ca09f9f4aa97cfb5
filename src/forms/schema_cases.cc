#include "forms/schema_cases.h"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <set>
#include <string>
#include <unordered_set>

namespace llada::forms {
namespace {

constexpr size_t kMostCases = 600;     // of one value
constexpr size_t kMostCompared = 64;   // branches of oneOf, each with each
constexpr size_t kMostDoubled = 8;     // by conditions
constexpr size_t kMostDependent = 16;  // that a member which others depend on doubles
constexpr size_t kMostDenied = 32;     // cases into which one is cut

bool is_in(std::span<const std::string_view> list, std::string_view key) {
  return std::ranges::find(list, key) != list.end();
}

void append(auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); }

void raise(NumberRange& r, double least, bool above) {
  if (!r.least || least > *r.least || (least == *r.least && above)) r.least = least, r.above = above;
}

void lower(NumberRange& r, double most, bool below) {
  if (!r.most || most < *r.most || (most == *r.most && below)) r.most = most, r.below = below;
}

void cut(int64_t& most, int64_t with) {
  if (with >= 0 && (most < 0 || with < most)) most = with;
}

void need(Case& c, std::string_view name) {
  if (std::ranges::find(c.required, name) == c.required.end()) c.required.push_back(name);
}

bool is_empty(const NumberRange& r) {
  return r.least && r.most && (*r.most < *r.least || (*r.most == *r.least && (r.above || r.below)));
}

}  // namespace

bool has_integer(const NumberRange& r) {
  if (!r.least || !r.most) return true;
  const double first = r.above ? std::floor(*r.least) + 1 : std::ceil(*r.least);
  return first < *r.most || (first == *r.most && !r.below);
}

bool Cases::meet(Case& a, const Case& b) {
  const auto texts_of = [&](const std::vector<const Json*>& list) {
    std::unordered_set<std::string_view> texts;
    for (const Json* value : list) texts.insert(document_.text_of(*value));
    return texts;
  };
  a.types &= b.types, a.hints |= b.hints, a.typed |= b.typed, a.open &= b.open;
  if (b.values && a.values) {
    std::erase_if(*a.values,
                  [&, both = texts_of(*b.values)](const Json* v) { return !both.contains(document_.text_of(*v)); });
  } else if (b.values) {
    a.values = b.values;
  }
  append(a.others, b.others);
  if (b.range.least) raise(a.range, *b.range.least, b.range.above);
  if (b.range.most) lower(a.range, *b.range.most, b.range.below);
  append(a.steps, b.steps), append(a.patterns, b.patterns), append(a.formats, b.formats);
  a.shortest = std::max(a.shortest, b.shortest), cut(a.longest, b.longest);
  a.least_items = std::max(a.least_items, b.least_items), cut(a.most_items, b.most_items);
  if (b.unique != nullptr) a.unique = b.unique;
  const size_t lists = a.lists.size(), objects = a.objects.size();
  append(a.lists, b.lists), append(a.held, b.held), append(a.objects, b.objects);
  a.least_members = std::max(a.least_members, b.least_members), cut(a.most_members, b.most_members);
  if (b.counted != nullptr) a.counted = b.counted;
  for (const std::string_view name : b.required) need(a, name);
  append(a.forbidden, b.forbidden), append(a.names, b.names), append(a.members, b.members);
  for (const Case::Closed& c : b.closed_objects)
    a.closed_objects.push_back({c.begin + objects, c.end + objects, c.rest});
  for (const Case::Closed& c : b.closed_lists) a.closed_lists.push_back({c.begin + lists, c.end + lists, c.rest});

  if (a.values)
    std::erase_if(*a.values, [&, others = texts_of(a.others)](const Json* v) {
      return !(bits_of(*v) & a.types) || (!others.empty() && others.contains(document_.text_of(*v)));
    });
  if (a.values && a.values->empty()) return false;
  if (is_empty(a.range)) a.types &= ~(Case::kInteger | Case::kNumber);
  if (!has_integer(a.range)) a.types &= ~Case::kInteger;
  if (a.longest >= 0 && a.longest < a.shortest) a.types &= ~Case::kString;
  if (a.most_items >= 0 && a.most_items < a.least_items) a.types &= ~Case::kArray;
  if (a.most_members >= 0 && a.most_members < std::max<int64_t>(a.least_members, std::ssize(a.required)))
    a.types &= ~Case::kObject;
  for (const std::string_view name : a.required)
    if (is_in(a.forbidden, name)) a.types &= ~Case::kObject;
  return a.types != 0;
}

Result<std::vector<Case>> Cases::of(const Clauses& clauses) {
  const auto open = std::exchange(open_, {});
  List list(1);
  for (size_t i = 0; i < clauses.size(); ++i) {
    const Clause& clause = clauses[i];
    const auto same = [&](const Clause& c) { return c.schema == clause.schema && c.denied == clause.denied; };
    if (std::any_of(clauses.begin(), clauses.begin() + static_cast<std::ptrdiff_t>(i), same)) continue;
    auto next = clause.denied ? deny(std::move(list), clause) : apply(std::move(list), clause);
    if (!next) return std::unexpected(next.error());
    list = *std::move(next);
  }
  open_ = open;
  return list;
}

Result<Clause> Cases::reference(const Json& s, const Json& to, const Place* place, bool denied) {
  if (!to.is_string()) {
    LLADA_TRY_STATUS(document_.leave_out(place, "found " + spelled(to).substr(0, 60) + ", needed a text"));
    return Clause{};
  }
  auto target = document_.follow(s, to.get_ref<const std::string&>());
  if (!target) {
    LLADA_TRY_STATUS(document_.leave_out(place, target.error().message));
    return Clause{};
  }
  return Clause{*target, place, denied};
}

// Schemas that lead into each other are read in each other, so their number is the depth of the stack.
Status Cases::enter(const Clause& clause) {
  constexpr size_t kMostOpen = 100;
  if (open_.size() == kMostOpen)
    return invalid("{}: found more than {} schemas that lead into each other", document_.path(clause.place), kMostOpen);
  open_.push_back(clause.schema);
  return {};
}

Result<std::vector<Case>> Cases::apply(List in, const Clause& clause) {
  // A list, an object or a string is made of about eight parts.
  if (!document_.budget().spend(8 + in.size()) || !take_steps(in))
    return invalid("{}: the schema is too large once its branches and references are followed",
                   document_.path(clause.place));
  const Json& s = *clause.schema;
  const Place* place = clause.place;
  if (s.is_boolean()) return s.get<bool>() ? std::move(in) : List();
  if (!s.is_object()) {
    LLADA_TRY_STATUS(document_.leave_out(place, "found " + spelled(s).substr(0, 60) + ", needed a schema"));
    return in;
  }
  if (std::ranges::find(open_, &s) != open_.end()) {
    lost_ = true;  // what leads back to itself without a value between has no end
    return List();
  }
  const bool closes = s.contains("unevaluatedProperties") || s.contains("unevaluatedItems");
  if (closes && in.size() > 1) {
    List out;
    for (Case& c : in) {
      LLADA_TRY(List part, apply({std::move(c)}, clause));
      append(out, part);
    }
    return out;
  }
  LLADA_TRY_STATUS(enter(clause));
  const size_t objects = in.empty() ? 0 : in[0].objects.size(), lists = in.empty() ? 0 : in[0].lists.size();
  auto out = combined(std::move(in), s, place);
  open_.pop_back();
  if (!out || !closes) return out;
  for (Case& c : *out) {
    if (s.contains("unevaluatedProperties")) c.hints |= Case::kObject;
    for (const char* key : {"unevaluatedProperties", "unevaluatedItems"}) {
      if (!s.contains(key)) continue;
      const bool members = key == std::string_view("unevaluatedProperties");
      const Clause rest{&s[key], document_.below(place, key)};
      (members ? c.closed_objects : c.closed_lists)
          .push_back({members ? objects : lists, members ? c.objects.size() : c.lists.size(), rest});
      c.open = false;
    }
  }
  return out;
}

Result<std::vector<Case>> Cases::combined(List in, const Json& s, const Place* place) {
  const auto follow = [&](const char* key) -> Status {
    LLADA_TRY(const Clause target, reference(s, s[key], document_.below(place, key), false));
    if (target.schema != nullptr) {
      LLADA_TRY(in, apply(std::move(in), target));
    }
    return {};
  };
  if (s.contains("$ref") && document_.draft() < 2019) {
    LLADA_TRY_STATUS(follow("$ref"));
    return in;
  }
  LLADA_TRY(const Case own, keywords(s, place));
  if (own.values)
    for (const Case& c : in)
      if (c.values) LLADA_TRY_STATUS(document_.budget().spend(c.values->size() / 16));
  if (!own.open) std::erase_if(in, [&](Case& c) { return !meet(c, own); });
  for (const auto& [key, value] : s.items()) {
    const auto at = [&] { return document_.below(place, key); };
    if (key == "$ref" || key == "$dynamicRef" || key == "$recursiveRef") {
      LLADA_TRY_STATUS(follow(key.c_str()));
    } else if (key == "allOf" || key == "anyOf" || key == "oneOf") {
      if (!value.is_array() || value.empty()) {
        LLADA_TRY_STATUS(
            document_.leave_out(at(), "found " + spelled(value).substr(0, 60) + ", needed a list of schemas"));
      } else if (key == "allOf") {
        const Place* const list = at();
        for (size_t i = 0; i < value.size(); ++i) {
          LLADA_TRY(in, apply(std::move(in), {&value[i], document_.below(list, "", static_cast<int64_t>(i))}));
        }
      } else {
        LLADA_TRY(in, key == "anyOf" ? any_of(in, value, at()) : one_of(in, value, at()));
      }
    } else if (key == "not") {
      LLADA_TRY(in, deny_or_say(std::move(in), {&value, at(), true}));
    } else if (key == "if") {
      LLADA_TRY(in, condition(std::move(in), s, place));
    } else if (key == "dependencies" || key == "dependentRequired" || key == "dependentSchemas") {
      if (!value.is_object()) {
        LLADA_TRY_STATUS(document_.leave_out(at(), "needed an object"));
        continue;
      }
      for (const auto& [name, needs] : value.items()) {
        LLADA_TRY(in, dependent(std::move(in), name, needs, document_.below(at(), name)));
      }
    }
    if (in.empty()) break;
  }
  return in;
}

Result<std::vector<Case>> Cases::any_of(const List& in, const Json& list, const Place* place) {
  List out;
  for (size_t i = 0; i < list.size(); ++i) {
    LLADA_TRY(List part, apply(in, {&list[i], document_.below(place, "", static_cast<int64_t>(i))}));
    for (Case& c : part) out.push_back(std::move(c));
    if (out.size() > kMostCases * 10) return invalid("{}: more than {} cases", document_.path(place), kMostCases * 10);
  }
  return out;
}

// Of each branch what fits no other one.
Result<std::vector<Case>> Cases::one_of(const List& in, const Json& list, const Place* place) {
  const auto branch = [&](size_t i) {
    return Clause{&list[i], document_.below(place, "", static_cast<int64_t>(i)), false};
  };
  // Of values that are listed each stands once.
  std::set<std::string> values;
  size_t listed = 0;
  for (const Json& s : list) {
    if (!s.is_object() || !(s.contains("const") || s.contains("enum"))) break;
    const Json some = s.contains("const") ? Json::array({s["const"]}) : s["enum"];
    for (const Json& value : some) ++listed, values.insert(canonical(value));
    if (&s == &list.back() && listed == values.size()) return any_of(in, list, place);
  }
  if (list.size() > kMostCompared) {
    LLADA_TRY_STATUS(document_.leave_out(place, fmt::format("more than {} schemas, so whether a value fits two of "
                                                            "them is not looked at",
                                                            kMostCompared)));
    return any_of(in, list, place);
  }
  List out;
  bool lost = lost_;
  for (size_t i = 0; i < list.size(); ++i) {
    LLADA_TRY(List fit, apply(in, branch(i)));
    for (size_t j = 0; j < list.size() && !fit.empty(); ++j) {
      if (j == i) continue;
      lost |= std::exchange(lost_, false);
      LLADA_TRY(List both, apply(fit, branch(j)));
      LLADA_TRY(both, possible(std::move(both), 2));
      if (both.empty() && !lost_) continue;
      lost_ = false;
      Clause other = branch(j);
      other.denied = true;
      LLADA_TRY(List rest, deny(fit, other));
      LLADA_TRY(rest, possible(std::move(rest), 1));
      lost |= lost_;
      if (rest.empty() && lost_) {
        LLADA_TRY_STATUS(document_.leave_out(
            place, fmt::format("a value may fit both [{}] and [{}], which cannot be told apart", i, j)));
        continue;
      }
      fit = std::move(rest);
    }
    append(out, fit);
    if (out.size() > kMostCases) return invalid("{}: more than {} cases", document_.path(place), kMostCases);
  }
  lost_ = lost || out.empty();
  return out;
}

Result<std::vector<Case>> Cases::condition(List in, const Json& s, const Place* place) {
  if (!s.contains("then") && !s.contains("else")) return in;
  const Clause test{&s["if"], document_.below(place, "if"), false};
  const size_t before = in.size();
  LLADA_TRY(List yes, apply(in, test));
  if (s.contains("then")) {
    LLADA_TRY(yes, apply(std::move(yes), {&s["then"], document_.below(place, "then")}));
  }
  LLADA_TRY(List no, deny(std::move(in), test));
  if (s.contains("else")) {
    LLADA_TRY(no, apply(std::move(no), {&s["else"], document_.below(place, "else")}));
  }
  LLADA_TRY(yes, possible(std::move(yes), 1));
  LLADA_TRY(no, possible(std::move(no), 1));
  // A part of them, before they double too often: what the condition does not hold for.
  const bool doubles = yes.size() + no.size() > kMostDoubled && yes.size() > before / 2 && no.size() > before / 2;
  lost_ |= doubles;
  if (doubles) {
    document_.warn(test.place,
                   fmt::format("beside others it makes more than {} cases; no answer fits it", kMostDoubled));
    return no;
  }
  append(yes, no);
  if (yes.size() > kMostCases) return invalid("{}: more than {} cases", document_.path(place), kMostCases);
  return yes;
}

Result<std::vector<Case>> Cases::dependent(List in, const std::string& name, const Json& needs, const Place* place) {
  List out;
  for (const Case& c : in) {
    Case without = c, with = c, needed;
    without.open = with.open = false;
    if (!is_in(c.required, name)) {
      Case absent;
      absent.forbidden.push_back(name), absent.hints = Case::kObject;
      if (meet(without, absent)) out.push_back(std::move(without));
      const bool doubles = in.size() > kMostDependent;  // a part of them, before they double too often
      lost_ |= doubles;
      if (doubles)
        document_.warn(
            place, fmt::format("beside others it makes more than {} cases; no answer has {}", kMostDependent, name));
      if (doubles || is_in(c.forbidden, name)) continue;
    }
    need(needed, name), needed.hints = Case::kObject;
    if (needs.is_array()) {
      for (const Json& other : needs)
        if (other.is_string()) need(needed, other.get_ref<const std::string&>());
    }
    if (!meet(with, needed)) continue;
    if (needs.is_array()) {
      out.push_back(std::move(with));
      continue;
    }
    LLADA_TRY(const List fit, apply({std::move(with)}, {&needs, place}));
    append(out, fit);
  }
  return out;
}

Result<std::vector<Case>> Cases::deny_or_say(List in, const Clause& clause) {
  const bool before = std::exchange(lost_, false);
  LLADA_TRY(List out, deny(in, clause));
  if (out.empty() && lost_ && !in.empty()) {
    LLADA_TRY_STATUS(document_.leave_out(clause.place, "not supported of this schema"));
    out = std::move(in);
  }
  lost_ |= before;
  return out;
}

// What does not fit one keyword or another. Those that cannot be denied leave their part of it out.
Result<std::vector<Case>> Cases::deny(List in, const Clause& clause) {
  if (!document_.budget().spend(8 + in.size()) || !take_steps(in))
    return invalid("{}: the schema is too large once its branches and references are followed",
                   document_.path(clause.place));
  const Json& s = *clause.schema;
  if (s.is_boolean()) return s.get<bool>() ? List() : std::move(in);
  if (!s.is_object() || std::ranges::find(open_, &s) != open_.end()) {
    lost_ = true;
    return List();
  }
  LLADA_TRY_STATUS(enter(clause));
  List out;
  for (const auto& [key, value] : s.items()) {
    if (document_.draft() < 2019 && key != "$ref" && s.contains("$ref")) continue;
    const Place* const place = document_.below(clause.place, key);
    const auto sub = [&](size_t i, bool denied) {
      return Clause{&value[i], document_.below(place, "", static_cast<int64_t>(i)), denied};
    };
    const bool list = value.is_array();
    if (key == "$ref") {
      LLADA_TRY(const Clause target, reference(s, value, place, true));
      if (target.schema == nullptr) continue;
      LLADA_TRY(const List fit, deny(in, target));
      append(out, fit);
    } else if (key == "allOf" && list) {
      for (size_t i = 0; i < value.size(); ++i) {
        LLADA_TRY(const List fit, deny(in, sub(i, true)));
        append(out, fit);
      }
    } else if (key == "anyOf" && list) {
      List fit = in;
      for (size_t i = 0; i < value.size(); ++i) {
        LLADA_TRY(fit, deny(std::move(fit), sub(i, true)));
      }
      append(out, fit);
    } else if (key == "not") {
      LLADA_TRY(const List fit, apply(in, {&value, place}));
      append(out, fit);
    } else {
      for (const Case& c : in) {
        LLADA_TRY(const List fit, deny_keyword(c, s, key, value, place));
        append(out, fit);
      }
    }
    if (out.size() > kMostDenied * std::max<size_t>(in.size(), 1)) {
      lost_ = true;
      break;
    }
  }
  open_.pop_back();
  return out;
}

Result<std::vector<Case>> Cases::deny_keyword(const Case& in, const Json& s, const std::string& key, const Json& k,
                                              const Place* place) {
  List out;
  const auto add = [&](const Case& with) {
    Case c = in;
    if (meet(c, with)) out.push_back(std::move(c));
  };
  Case no;
  no.open = false;
  const auto only = [&](unsigned types) { no.types = no.hints = types; };
  const bool number = k.is_number();
  const double bound = number ? k.get<double>() : 0;
  const bool small = std::abs(bound) <= kMostBound && (std::abs(bound) >= kLeastBound || bound == 0);
  const bool whole = number && bound == std::floor(bound) && bound >= 0 && bound < 1e6;
  if (key == "type") {
    unsigned bits = 0;
    for (const Json& type : k.is_array() ? k : Json::array({k}))
      if (type.is_string()) bits |= bits_of_type(type.get_ref<const std::string&>());
    no.types = Case::kAll & ~bits;
    add(no);
  } else if (key == "const" || (key == "enum" && k.is_array())) {
    if (key == "const") no.others.push_back(&k);
    if (key == "enum")
      for (const Json& value : k) no.others.push_back(&value);
    add(no);
  } else if ((key == "minimum" || key == "exclusiveMinimum") && number && small) {
    only(Case::kInteger | Case::kNumber);
    lower(no.range, bound, key == "minimum" && s.value("exclusiveMinimum", Json()) != true);
    add(no);
  } else if ((key == "maximum" || key == "exclusiveMaximum") && number && small) {
    only(Case::kInteger | Case::kNumber);
    raise(no.range, bound, key == "maximum" && s.value("exclusiveMaximum", Json()) != true);
    add(no);
  } else if ((key == "minLength" || key == "minItems" || key == "minProperties") && whole) {
    only(key == "minLength" ? Case::kString : key == "minItems" ? Case::kArray : Case::kObject);
    auto& most = key == "minLength" ? no.longest : key == "minItems" ? no.most_items : no.most_members;
    most = static_cast<int64_t>(bound) - 1;
    if (most >= 0) add(no);
  } else if ((key == "maxLength" || key == "maxItems" || key == "maxProperties") && whole) {
    only(key == "maxLength" ? Case::kString : key == "maxItems" ? Case::kArray : Case::kObject);
    auto& least = key == "maxLength" ? no.shortest : key == "maxItems" ? no.least_items : no.least_members;
    least = static_cast<int64_t>(bound) + 1;
    add(no);
  } else if (key == "pattern" && k.is_string()) {
    only(Case::kString);
    no.patterns.push_back({k.get_ref<const std::string&>(), place, true});
    add(no);
  } else if (key == "required" && k.is_array()) {
    only(Case::kObject);
    for (const Json& name : k) {
      if (!name.is_string()) continue;
      no.forbidden = {name.get_ref<const std::string&>()};
      // Where no answer has that member there is nothing else to look at.
      const bool declares = std::ranges::any_of(in.objects, [](const auto& o) { return o.properties != nullptr; });
      const bool has =
          is_in(in.required, no.forbidden[0]) || std::ranges::any_of(in.objects, [&](const Case::Object& o) {
            return o.properties != nullptr && o.properties->contains(no.forbidden[0]);
          });
      if (declares && !has && (in.types == Case::kObject || (!in.typed && (in.hints & Case::kObject)))) {
        out.clear();
        add(no);
        lost_ = true;
        return out;
      }
      add(no);
    }
  } else if (key == "properties" && k.is_object()) {
    only(Case::kObject);
    for (const auto& [name, schema] : k.items()) {
      if (schema == true || (schema.is_object() && schema.empty())) continue;
      no.required = {name};
      no.members = {{name, {&schema, document_.below(place, name), true}}};
      add(no);
    }
  } else if (asserts(key)) {
    lost_ = true;
  }
  return out;
}

}  // namespace llada::forms
