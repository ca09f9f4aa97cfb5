// Objects of a schema: members in the order in which they are declared, or those that nobody names.
#include <algorithm>
#include <tuple>

#include "forms/product.h"
#include "forms/schema_write.h"

namespace llada::forms {

bool is_never(const Expr& e) { return e->kind == Expression::Kind::never; }

Expr some_of(std::vector<Expr> parts) {
  std::erase_if(parts, is_never);
  return parts.empty() ? never() : either(std::move(parts));
}

Expr all_of(std::vector<Expr> parts) {
  return std::ranges::any_of(parts, is_never) ? never() : sequence(std::move(parts));
}

namespace {

// From `least` to `most` of the members in their order. at(i, n): those from i on, n before them are written.
class MemberCounts {
 public:
  MemberCounts(const std::vector<Expr>& parts, const std::vector<bool>& required, int64_t least, int64_t most,
               std::string_view between)
      : parts_(parts), required_(required), least_(least), most_(most), between_(between) {}

  Expr at(size_t i, int64_t written) {
    if (i == parts_.size()) return written < least_ ? never() : text("");
    Expr& made = made_[{i, written}];
    if (made != nullptr) return made;
    std::vector<Expr> ways;
    if (most_ < 0 || written < most_) {
      std::vector<Expr> with = {
          parts_[i], at(i + 1, most_ < 0 ? std::min(written + 1, std::max(least_, int64_t{1})) : written + 1)};
      if (written > 0) with.insert(with.begin(), text(between_));
      ways.push_back(all_of(std::move(with)));
    }
    if (!required_[i]) ways.push_back(at(i + 1, written));
    return made_[{i, written}] = some_of(std::move(ways));
  }

 private:
  const std::vector<Expr>& parts_;
  const std::vector<bool>& required_;
  const int64_t least_, most_;
  const std::string between_;
  std::map<std::pair<size_t, int64_t>, Expr> made_;
};

}  // namespace

Expr in_order(const std::vector<Expr>& parts, const std::vector<bool>& required, int64_t least, int64_t most,
              std::string_view between) {
  return MemberCounts(parts, required, least, most, between).at(0, 0);
}

Result<Expr> SchemaWriter::object(const Case& c, const Place* place, int left) {
  std::vector<std::string_view> names;
  std::set<std::string_view> known;
  const auto name = [&](std::string_view one) {
    if (known.insert(one).second) names.push_back(one);
  };
  bool declares = false;
  for (const Case::Object& o : c.objects) {
    declares |= o.properties != nullptr;
    if (o.properties != nullptr)
      for (const auto& [key, schema] : o.properties->items()) name(key);
  }
  for (const std::string_view one : c.required) name(one);
  if (!declares && names.empty()) return dictionary(c, place, left);
  if (spelling_ == CallForm::gemma) {
    Json sorted = Json::object();
    for (const std::string_view one : names) sorted[std::string(one)] = nullptr;
    std::vector<std::string_view> order;
    for (const auto& [key, value] : sorted_members(sorted)) order.push_back(*known.find(key));
    names = order;
  }
  const std::set<std::string_view> needs(c.required.begin(), c.required.end());
  std::vector<Expr> parts;
  std::vector<bool> required;
  LLADA_TRY_STATUS(budget_.spend(names.size()));
  const Place* const properties = document_.below(place, "properties");
  for (const std::string_view one : names) {
    LLADA_TRY_STATUS(budget_.spend(one.size()));
    LLADA_TRY(const auto clauses, cases_.member(c, one));
    Expr member = never();
    if (clauses) {
      LLADA_TRY(member,
                value(*clauses, clauses->empty() ? document_.below(properties, one) : clauses->front().place, left));
    }
    if (is_never(member) && needs.contains(one)) return never();
    if (is_never(member)) continue;
    parts.push_back(sequence({json_key(one, spelling_), std::move(member)}));
    required.push_back(needs.contains(one));
  }
  const int64_t least = std::ssize(needs) >= c.least_members ? 0 : c.least_members;
  const int64_t most = c.most_members >= std::ssize(parts) ? -1 : c.most_members;
  if (least > std::ssize(parts)) {
    // Members that nobody declared would have to be written.
    LLADA_TRY_STATUS(document_.leave_out(c.counted != nullptr ? c.counted : place,
                                         fmt::format("more members than the {} that are named", parts.size())));
    return all_of({text("{"), members(std::move(parts), std::move(required), spelling_ == CallForm::json ? ", " : ","),
                   text("}")});
  }
  const std::string between = spelling_ == CallForm::json ? ", " : ",";
  if (least <= 0 && most < 0)
    return all_of({text("{"), members(std::move(parts), std::move(required), between), text("}")});
  LLADA_TRY_STATUS(budget_.spend(kInOrder * parts.size() * static_cast<size_t>(std::max<int64_t>({least, most, 1}))));
  return all_of({text("{"), in_order(parts, required, least, most, between), text("}")});
}

Result<Expr> SchemaWriter::key(const Case& names, const Place* place) {
  LLADA_TRY(Expr inside, content(names, place, letters_in(spelling_)));
  const bool counts = names.shortest > 0 || names.longest >= 0;
  if (inside == nullptr && !counts) return json_key(spelling_);
  if (inside == nullptr) inside = repeat(any_letter(letters_in(spelling_)), names.shortest, names.longest);
  if (spelling_ == CallForm::json) return all_of({text("\""), std::move(inside), text("\": ")});
  LLADA_TRY(inside, both(inside, bare_name(), budget_));
  return all_of({std::move(inside), text(":")});
}

// Members whose names nobody lists.
Result<Expr> SchemaWriter::dictionary(const Case& c, const Place* place, int left) {
  if (c.most_members == 0) return json_dictionary(never(), c.least_members, 0, spelling_);
  bool patterns = false, closed = !c.closed_objects.empty();
  for (const Case::Object& o : c.objects) patterns |= o.patterns != nullptr && !o.patterns->empty();
  if (c.objects.empty() && c.names.empty() && c.forbidden.empty() && c.least_members == 0 && c.most_members < 0 &&
      !closed)
    return json_object(std::max<int64_t>(levels_.any, 1), spelling_);
  // Names that propertyNames allows, as strings.
  std::vector<Case> names(1);
  if (!c.names.empty()) {
    LLADA_TRY(names, cases_.of(c.names));
  }
  std::vector<Expr> ways;
  const auto add = [&](std::vector<Case::Pattern> more, const Clauses& clauses, const Place* at) -> Status {
    std::vector<Json> forbidden;
    for (const std::string_view name : c.forbidden) forbidden.emplace_back(std::string(name));
    Expr found;
    if (clauses.empty()) {
      found = json_any(std::max<int64_t>(levels_.any - 1, 0), spelling_);
    } else {
      LLADA_TRY(found, value(clauses, at, left));
    }
    for (const Case& one : names) {
      if (!(one.types & Case::kString) || is_never(found)) continue;
      Case name = one;
      for (const Case::Pattern& p : more) name.patterns.push_back(p);
      for (const Json& other : forbidden) name.others.push_back(&other);
      if (name.values) {
        for (const Json* listed : *name.values) {
          if (!listed->is_string() || !more.empty()) continue;
          ways.push_back(sequence({json_key(listed->get_ref<const std::string&>(), spelling_), found}));
        }
        continue;
      }
      LLADA_TRY(const Expr written, key(name, at));
      ways.push_back(all_of({written, found}));
    }
    return {};
  };
  // Of names that fit a pattern, those that fit no other one; and names that fit none.
  std::vector<std::tuple<std::string_view, const Json*, const Place*>> all;
  for (const Case::Object& o : c.objects)
    if (o.patterns != nullptr)
      for (const auto& [regex, schema] : o.patterns->items())
        all.emplace_back(regex, &schema, document_.below(document_.below(o.place, "patternProperties"), regex));
  for (size_t i = 0; i < all.size(); ++i) {
    LLADA_TRY_STATUS(budget_.step(10 * std::ssize(all) + std::ssize(c.objects) * std::ssize(all)));
    std::vector<Case::Pattern> more = {{std::get<0>(all[i]), std::get<2>(all[i]), false}};
    for (size_t j = 0; j < all.size(); ++j)
      if (j != i && std::get<0>(all[j]) != std::get<0>(all[i]))
        more.push_back({std::get<0>(all[j]), std::get<2>(all[j]), true});
    Clauses clauses;
    bool fits = true;
    for (const Case::Object& o : c.objects) {
      const Json* const same =
          o.patterns != nullptr && o.patterns->contains(std::string(std::get<0>(all[i]))) ? o.patterns : nullptr;
      if (same != nullptr) clauses.push_back({&(*same)[std::string(std::get<0>(all[i]))], std::get<2>(all[i])});
      if (same == nullptr && o.additional.schema != nullptr) clauses.push_back(o.additional);
    }
    for (const Case::Closed& rest : c.closed_objects)
      if (rest.begin > 0 || rest.end < c.objects.size()) clauses.push_back(rest.rest);
    for (const Clause& clause : clauses) fits &= *clause.schema != false;
    if (fits) LLADA_TRY_STATUS(add(std::move(more), clauses, std::get<2>(all[i])));
  }
  Clauses additional;
  bool fits = !patterns;
  for (const Case::Object& o : c.objects) {
    if (o.additional.schema == nullptr) continue;
    fits |= patterns;
    additional.push_back(o.additional);
  }
  for (const Case::Closed& rest : c.closed_objects) additional.push_back(rest.rest);
  for (const Clause& clause : additional) fits &= *clause.schema != false;
  if (fits) {
    std::vector<Case::Pattern> more;
    for (const auto& [regex, schema, at] : all) more.push_back({regex, at, true});
    LLADA_TRY_STATUS(add(std::move(more), additional, additional.empty() ? place : additional.front().place));
  }
  int64_t least = c.least_members;
  if (least > 1) {
    // Two members of one name are one.
    LLADA_TRY_STATUS(document_.leave_out(c.counted != nullptr ? c.counted : place,
                                         "a lower bound on the number of members is supported for named ones only"));
    least = 1;
  }
  const Expr member = some_of(std::move(ways));
  if (is_never(member)) return json_dictionary(member, least, 0, spelling_);
  return json_dictionary(member, least, c.most_members, spelling_);
}

}  // namespace llada::forms
