#include "forms/schema_write.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include "forms/automaton.h"
#include "forms/nfa.h"
#include "forms/product.h"
#include "forms/regex.h"

namespace llada::forms {
namespace {

constexpr int kMostDepth = 200;        // of values in values, references followed
constexpr int64_t kMostCounted = 256;  // characters that are counted beside a pattern
constexpr size_t kMostInAnyOrder = 6;  // values of a list of different ones

// Numbers are written in several ways, members of an object in several orders.
bool has_one_text(const Json& value) {
  if (value.is_number() || (value.is_object() && value.size() > 1)) return false;
  return !value.is_structured() || std::ranges::all_of(value, has_one_text);
}

}  // namespace

SchemaWriter::SchemaWriter(Document& document, const SchemaLevels& levels, StringContents& contents)
    : document_(document),
      budget_(document.budget()),
      contents_(contents),
      spelling_(document.spelling()),
      levels_(levels),
      any_(json_any(levels.any, document.spelling())),
      cases_(document) {}

Result<Expr> SchemaWriter::value(const Clauses& clauses, const Place* place, int left) {
  Key key{{}, left};
  for (const Clause& clause : clauses)
    if (*clause.schema != true || clause.denied) key.first.emplace_back(clause.schema, clause.denied);
  if (key.first.empty()) return any_;
  std::ranges::sort(key.first);
  key.first.erase(std::ranges::unique(key.first).begin(), key.first.end());
  // What is made for a value inside itself has one level less, whoever asks for it.
  if (open_.contains(key)) --key.second;
  if (key.second == 0) return never();
  // Where there is no room below, another depth is another value.
  constexpr int kFar = 100;
  const int left_here = key.second;
  if (levels_.deepest < kFar) key.second += kFar * (depth_ + 1);
  if (const auto known = made_.find(key); known != made_.end()) return known->second;
  if (depth_ == kMostDepth)
    return invalid("{}: the schema is too deep once its references are followed", document_.path(place));
  ++depth_;
  open_.insert(key);
  const size_t before = budget_.left(), own = written_.size();
  if (budget_.heaviest != nullptr) {
    if (!within_.empty()) written_[within_.back()].below.push_back(own);
    within_.push_back(own);
    written_.push_back({clauses.front().schema, place});
  }
  auto cases = cases_.of(clauses);
  Result<Expr> made = std::unexpected(Error{});
  if (cases)
    made = of_cases(clauses, *std::move(cases), place, left_here);
  else
    made = std::unexpected(cases.error());
  open_.erase(key);
  --depth_;
  if (budget_.heaviest != nullptr) {
    if (made) written_[own].made = *made;
    written_[own].spent = before - budget_.left();
    within_.pop_back();
  }
  if (made) made_.emplace(std::move(key), *made);
  return made;
}

// Goes down as long as one value below has half of the cost. Bounded: behind some values that are large the rest counts
// as nothing.
Budget::Heaviest SchemaWriter::heaviest() const {
  constexpr int64_t kTooLarge = INT64_MAX / 2, kMostLooked = 5 * int64_t{kMostStates};
  if (written_.empty()) return {};
  const bool whole = written_[0].made != nullptr;
  int64_t looked = 0;
  bool out_of_steps = false;  // which says nothing of the part where they ran out
  const auto cost = [&](const Written& w) {
    if (!whole) return static_cast<int64_t>(w.spent);
    if (w.made == nullptr || is_never(w.made) || looked > kMostLooked) return int64_t{0};
    const auto automaton = compile(w.made, kLastLevel, &budget_);
    out_of_steps = budget_.steps_left() == 0;
    looked += automaton ? automaton->states() : kMostStates;
    return automaton ? int64_t{automaton->states()} : kTooLarge;
  };
  const Written* at = &written_[0];
  const int64_t all = cost(*at);
  for (int64_t total = all;;) {
    const Written* next = nullptr;
    int64_t most = 0;
    for (const size_t i : at->below)
      if (const int64_t one = cost(written_[i]); one > most) most = one, next = &written_[i];
    if (next == nullptr || most < (total + 1) / 2 || out_of_steps) break;
    at = next, total = most;
  }
  std::string path = document_.path(at->place);
  if (at->schema->is_object())
    for (const char* key : {"pattern", "format", "minLength", "maxLength", "contains", "uniqueItems", "minItems",
                            "maxItems", "multipleOf", "enum", "anyOf", "oneOf", "allOf", "not", "if",
                            "patternProperties", "properties", "prefixItems"})
      if (at->schema->contains(key)) return {all, path + '.' + key};
  return {all, std::move(path)};
}

Result<Expr> SchemaWriter::of_cases(const Clauses& clauses, std::vector<Case> cases, const Place* place, int left) {
  std::vector<Expr> parts;
  LLADA_TRY(const auto texts, listed(clauses, cases, place));
  for (const std::string& one : texts) parts.push_back(text(one));
  for (const Case& c : cases) {
    if (c.values) continue;
    if (c.open) return any_;
    LLADA_TRY(Expr part, of_case(c, place, left));
    parts.push_back(std::move(part));
  }
  return some_of(std::move(parts));
}

// The values that cases list, of which those stay that fit the whole.
Result<std::vector<std::string>> SchemaWriter::listed(const Clauses& clauses, const std::vector<Case>& cases,
                                                      const Place* place) {
  std::vector<std::string> texts;
  std::set<std::string> known;
  for (const Case& c : cases) {
    if (!c.values) continue;
    for (const Json* value : *c.values) {
      std::string whole = spelled(*value, spelling_);
      LLADA_TRY_STATUS(budget_.step(50 + std::ssize(whole)));
      if (!known.insert(whole).second) continue;
      LLADA_TRY_STATUS(budget_.spend(whole.size()));
      bool fits = true, sure = true;
      for (const Clause& clause : c.lists_alone() ? Clauses() : clauses) {
        const auto told = holds(document_, *clause.schema, *value);
        fits &= told != clause.denied;
        sure &= told.has_value();
      }
      if (!fits) continue;
      if (!sure) LLADA_TRY_STATUS(document_.leave_out(place, "whether a value of enum or const fits is not known"));
      texts.push_back(std::move(whole));
    }
  }
  return texts;
}

Result<Expr> SchemaWriter::of_case(const Case& c, const Place* place, int left) {
  unsigned types = c.types;
  // Without a type, what the other keywords are about.
  if (!c.typed && (types & c.hints)) types &= c.hints;
  if (depth_ > levels_.deepest) types &= ~(Case::kArray | Case::kObject);
  const auto excluded = [&](const Json& value) {
    return std::ranges::any_of(c.others, [&](const Json* other) { return same_value(*other, value); });
  };
  std::vector<Expr> lists, objects;  // that it is not
  for (const Json* other : c.others) {
    if (!other->is_structured() || !(types & bits_of(*other))) continue;
    const auto only = only_text(*other, c);
    if (only)
      (other->is_array() ? lists : objects).push_back(text(*only));
    else
      types &= ~bits_of(*other);
  }
  std::vector<Expr> parts;
  const auto add = [&](Result<Expr> part) -> Status {
    if (!part) return std::unexpected(part.error());
    parts.push_back(*std::move(part));
    return {};
  };
  if ((types & Case::kNull) && !excluded(nullptr)) parts.push_back(json_null(spelling_));
  if (types & Case::kBoolean)
    for (const bool value : {true, false})
      if (!excluded(value)) parts.push_back(text(value ? "true" : "false"));
  if (types & Case::kString) LLADA_TRY_STATUS(add(string(c, place)));
  if ((types & Case::kInteger) || ((types & Case::kNumber) && !has_integer(c.range))) {
    Case numbers = c;
    numbers.types = types;
    LLADA_TRY_STATUS(add(number(numbers, place)));
  }
  const auto add_others = [&](Result<Expr> part, std::vector<Expr> none) {
    if (!part || none.empty()) return add(std::move(part));
    auto made = except(*part, either(std::move(none)), budget_);
    return add(made ? *std::move(made) : never());
  };
  if (types & Case::kArray) LLADA_TRY_STATUS(add_others(array(c, place, left), std::move(lists)));
  if (types & Case::kObject) LLADA_TRY_STATUS(add_others(object(c, place, left), std::move(objects)));
  return some_of(std::move(parts));
}

// The only text by which the case would write a list or an object; nothing: there may be several.
std::optional<std::string> SchemaWriter::only_text(const Json& value, const Case& c) const {
  Json ordered = Json::object();
  bool names = false;
  const auto put = [&](const std::string& name) {
    names = true;
    if (const auto at = value.find(name); at != value.end()) ordered[name] = *at;
  };
  for (const Case::Object& o : c.objects)
    if (o.properties != nullptr)
      for (const auto& [name, schema] : o.properties->items()) put(name);
  for (const std::string_view name : c.required) put(std::string(name));
  if (value.is_array())
    ordered = value;
  else if (names && ordered.size() < value.size())
    return spelled(value, spelling_);  // it is not written
  if (ordered.size() < value.size() || !std::ranges::all_of(value, has_one_text)) return {};
  return spelled(ordered, spelling_);
}

Result<Expr> SchemaWriter::string(const Case& c, const Place* place) {
  LLADA_TRY(Expr inside, content(c, place, letters_in(spelling_)));
  if (inside == nullptr) return json_string(c.shortest, c.longest, spelling_);
  return is_never(inside) ? inside : quoted(std::move(inside), spelling_);
}

Result<Expr> SchemaWriter::content(const Case& c, const Place* place, Letters letters) {
  std::string key = fmt::format("{} {} {}", letters == Letters::json, c.shortest, c.longest);
  const auto add = [&](char kind, std::string_view text) { key += fmt::format(" {}{} {}", kind, text.size(), text); };
  for (const Case::Pattern& f : c.formats) add('f', f.regex);
  for (const Case::Pattern& p : c.patterns) add(p.denied ? 'd' : 'p', p.regex);
  for (const Json* other : c.others)
    if (other->is_string()) add('o', other->get_ref<const std::string&>());
  if (const auto known = contents_.made.find(key); known != contents_.made.end()) {
    for (const auto& [part, why] : known->second.left_out)
      LLADA_TRY_STATUS(document_.leave_out(place_of(c, place, part), why));
    return known->second.texts;
  }
  StringContents::Content made;
  LLADA_TRY(made.texts, new_content(c, place, letters, made.left_out));
  return contents_.made.emplace(std::move(key), std::move(made)).first->second.texts;
}

const Place* SchemaWriter::place_of(const Case& c, const Place* place, StringContents::Part part) const {
  using Kind = StringContents::Part::Kind;
  if (part.kind == Kind::format) return c.formats[part.index].place;
  if (part.kind == Kind::pattern) return c.patterns[part.index].place;
  if (part.kind == Kind::other) return place;
  return document_.below(place, c.shortest > 0 ? "minLength" : "maxLength");
}

Result<Expr> SchemaWriter::pattern(std::string_view regex, Letters letters) {
  Expr& known = contents_.patterns[fmt::format("{} {}", letters == Letters::json, regex)];
  if (known != nullptr) return known;
  LLADA_TRY(const Expr read, parse_regex(regex, budget_, letters, Match::anywhere));
  LLADA_TRY(known, compiled(read, budget_));
  return known;
}

Result<Expr> SchemaWriter::new_content(const Case& c, const Place* place, Letters letters,
                                       std::vector<std::pair<StringContents::Part, std::string>>& left_out) {
  using Kind = StringContents::Part::Kind;
  const Expr any = repeat(any_letter(letters), 0, -1);
  Expr all;
  const bool counts = c.shortest > 0 || c.longest >= 0;
  const bool alone =
      c.patterns.size() == 1 && !c.patterns[0].denied && c.formats.empty() && c.others.empty() && !counts;
  const auto leave_out = [&](StringContents::Part part, const std::string& why) {
    left_out.emplace_back(part, why);
    return document_.leave_out(place_of(c, place, part), why);
  };
  // With what is there already; where that takes too many states, it is left out.
  const auto with = [&](const Expr& texts, StringContents::Part part, bool inside) -> Status {
    if (all == nullptr && inside) {
      all = texts;
      return {};
    }
    auto made = inside ? both(all, texts, budget_) : except(all == nullptr ? any : all, texts, budget_);
    if (!made) return leave_out(part, made.error().message);
    all = *std::move(made);
    return {};
  };
  for (size_t i = 0; i < c.formats.size(); ++i) {
    LLADA_TRY_STATUS(budget_.spend(500));
    LLADA_TRY_STATUS(with(json_format(c.formats[i].regex, letters), {Kind::format, i}, true));
  }
  for (size_t i = 0; i < c.patterns.size(); ++i) {
    const Case::Pattern& p = c.patterns[i];
    const StringContents::Part part{Kind::pattern, i};
    auto read = alone ? parse_regex(p.regex, budget_, letters, Match::anywhere) : pattern(p.regex, letters);
    LLADA_TRY_STATUS(read ? with(*read, part, !p.denied) : leave_out(part, read.error().message));
  }
  std::vector<Expr> others;
  for (const Json* other : c.others)
    if (other->is_string()) {
      std::string bytes = letters == Letters::json ? spelled(*other) : other->get<std::string>();
      if (letters == Letters::json) bytes = bytes.substr(1, bytes.size() - 2);
      others.push_back(text(std::move(bytes)));
    }
  if (!others.empty()) LLADA_TRY_STATUS(with(either(std::move(others)), {Kind::other}, false));
  if (all == nullptr || !counts || is_never(all)) return all;
  if (c.shortest == 0) {
    const auto most = longest(all, budget_);
    if (most && *most <= c.longest) return all;
  }
  const int64_t most = c.longest < 0 ? -1 : std::min(c.longest, std::max(kMostCounted, c.shortest));
  LLADA_TRY_STATUS(with(repeat(any_letter(letters), c.shortest, most), {Kind::length}, true));
  return all;
}

Result<Expr> SchemaWriter::number(const Case& c, const Place* place) {
  const bool integer = !(c.types & Case::kNumber);
  const NumberRange& r = c.range;
  Expr range;
  if (integer) {
    std::optional<int64_t> first, last;
    if (r.least) first = static_cast<int64_t>(r.above ? std::floor(*r.least) + 1 : std::ceil(*r.least));
    if (r.most) last = static_cast<int64_t>(r.below ? std::ceil(*r.most) - 1 : std::floor(*r.most));
    range = json_integer(first, last);
  } else {
    range = json_number(r);
  }
  if (integer || r.least || r.most) LLADA_TRY_STATUS(budget_.spend_on(*range));
  for (const Clause& step : c.steps) {
    auto made = json_multiples(step.schema->get<double>(), integer, budget_);
    if (made) made = both(range, *made, budget_);
    if (made)
      range = *std::move(made);
    else
      LLADA_TRY_STATUS(document_.leave_out(step.place, made.error().message));
  }
  std::vector<Expr> others;
  const Expr zeros = sequence({text("."), repeat(text("0"), 1, -1)}), end = repeat(zeros, 0, 1);
  for (const Json* other : c.others) {
    if (!other->is_number() || (integer && !is_of_type(*other, "integer"))) continue;
    std::string spelling =
        is_of_type(*other, "integer") ? fmt::format("{:.0f}", other->get<double>()) : spelled(*other);
    const bool point = spelling.contains('.');
    others.push_back(sequence({text(spelling), point ? repeat(text("0"), 0, -1) : end}));
    if (spelling == "0") others.push_back(sequence({text("-0"), end}));
  }
  if (others.empty()) return range;
  // A number has many spellings with exponents.
  static const Expr plain = *json_multiples(1e-9, false, *std::make_unique<Budget>());
  if (!integer) {
    LLADA_TRY(range, both(range, plain, budget_));
  }
  auto made = except(range, either(std::move(others)), budget_);
  if (made) return made;
  LLADA_TRY_STATUS(document_.leave_out(place, made.error().message));
  return range;
}

// Different values: nothing, where they are not listed.
Result<std::optional<Expr>> SchemaWriter::unique_items(const Clauses& item, const Case& c, const Place* place) {
  LLADA_TRY(const std::vector<Case> cases, cases_.of(item));
  std::vector<std::string> texts;
  bool all = true;
  for (const Case& one : cases) all &= one.values || (one.types == Case::kBoolean && one.others.empty());
  if (!all) return std::optional<Expr>();
  LLADA_TRY(texts, listed(item, cases, place));
  if (std::ranges::any_of(cases, [](const Case& one) { return !one.values; })) texts = {"true", "false"};
  const std::string between = spelling_ == CallForm::json ? ", " : ",";
  std::vector<Expr> parts;
  for (const std::string& one : texts) parts.push_back(text(one));
  if (parts.size() > kMostInAnyOrder) {
    LLADA_TRY_STATUS(budget_.spend(kInOrder * parts.size() *
                                   static_cast<size_t>(std::max<int64_t>({c.least_items, c.most_items, 1}))));
    return all_of(
        {text("["), in_order(parts, std::vector<bool>(parts.size()), c.least_items, c.most_items, between), text("]")});
  }
  // What may follow when these are written.
  std::vector<Expr> behind(size_t{1} << parts.size());
  for (size_t written = behind.size(); written-- > 0;) {
    const auto count = std::popcount(written);
    std::vector<Expr> ways;
    if (count >= c.least_items) ways.push_back(text(""));
    for (size_t i = 0; i < parts.size() && (c.most_items < 0 || count < c.most_items); ++i)
      if (!(written >> i & 1))
        ways.push_back(all_of({text(written == 0 ? "" : between), parts[i], behind[written | size_t{1} << i]}));
    behind[written] = some_of(std::move(ways));
  }
  return all_of({text("["), behind[0], text("]")});
}

Result<Expr> SchemaWriter::array(const Case& c, const Place* place, int left) {
  int64_t first = 0;
  for (const Case::List& list : c.lists)
    if (list.first != nullptr) first = std::max<int64_t>(first, std::ssize(*list.first));
  const auto below = [&](int64_t index) { return document_.below(place, "items", index); };
  auto rest = cases_.item(c, -1);
  int64_t most = c.most_items;
  if (!rest) most = most < 0 ? first : std::min(most, first);
  if (c.unique != nullptr && most != 0 && most != 1) {
    std::optional<Expr> different;
    if (rest && first == 0 && c.held.empty()) {
      LLADA_TRY(different, unique_items(*rest, c, place));
    }
    if (different) return *different;
    LLADA_TRY_STATUS(document_.leave_out(c.unique, "unique items are supported for listed values only"));
  }
  Expr item = never();
  if (rest && rest->empty()) {
    item = json_any(std::max<int64_t>(levels_.any - 1, 0), spelling_);
  } else if (rest) {
    LLADA_TRY(item, value(*rest, document_.below(place, "items"), left));
  }
  const std::string between = spelling_ == CallForm::json ? ", " : ",";
  if (!c.held.empty()) {
    if (first > 0 || c.held.size() > 1) {
      LLADA_TRY_STATUS(document_.leave_out(c.held[0].item.place, "not supported beside another list of schemas"));
    } else if (rest) {
      Clauses both = *rest;
      both.push_back(c.held[0].item);
      LLADA_TRY(const Expr held, value(both, c.held[0].item.place, left));
      const int64_t times = c.held[0].least;
      const Expr more = sequence({text(between), item});
      if (times == 1 && c.least_items <= 1 && most < 0 && !is_never(item))
        return all_of(
            {text("["), repeat(sequence({item, text(between)}), 0, -1), held, repeat(more, 0, -1), text("]")});
      // Where items are counted, those stand in front.
      const Expr further = repeat(more, std::max<int64_t>(c.least_items - times, 0), most < 0 ? -1 : most - times);
      return all_of({text("["), held, repeat(sequence({text(between), held}), times - 1, times - 1),
                     is_never(item) ? text("") : further, text("]")});
    }
  }
  if (is_never(item)) most = most < 0 ? first : std::min(most, first);
  if (first == 0) return json_list(item, c.least_items, most, spelling_);
  // From the last item of its own on: what may follow it.
  LLADA_TRY_STATUS(budget_.spend(static_cast<size_t>(first) * 4));
  std::vector<Expr> own;
  for (int64_t i = 0; i < first && (most < 0 || i < most); ++i) {
    const auto clauses = cases_.item(c, i);
    if (!clauses) break;
    LLADA_TRY(Expr one, value(*clauses, below(i), left));
    if (is_never(one)) break;
    own.push_back(std::move(one));
  }
  const auto count = std::ssize(own);
  const bool ends = count < first || (most >= 0 && most <= count);
  Expr behind = ends ? (c.least_items > count ? never() : text(""))
                     : repeat(sequence({text(between), item}), std::max<int64_t>(c.least_items - count, 0),
                              most < 0 ? -1 : most - count);
  for (int64_t i = count; i-- > 0;) {
    Expr with = all_of({text(i > 0 ? between : ""), own[static_cast<size_t>(i)], behind});
    behind = i >= c.least_items ? some_of({text(""), std::move(with)}) : std::move(with);
  }
  return all_of({text("["), std::move(behind), text("]")});
}

}  // namespace llada::forms
