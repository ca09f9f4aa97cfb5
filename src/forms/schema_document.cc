#include "forms/schema_document.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "forms/regex.h"

namespace llada::forms {
namespace {

constexpr size_t kMostSaid = 20;  // warnings
constexpr size_t kMostPath = 200;

// The specification's own schema, which describes schemas. This is a part of it that needs no recursion.
const Json& schema_of_schemas() {
  static const Json made =
      parse_json_object(
          R"({"type": "object", "properties": {"title": {"type": "string"}, "description": {"type": "string"},
          "type": {"enum": ["string", "number", "integer", "boolean", "null", "array", "object"]}}})",
          "schema", kOwnJson)
          .value();
  return made;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const bool code = text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    out += code ? static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])) : text[i];
    if (code) i += 2;
  }
  return out;
}

// RFC 3986's resolution as far as schemas use it: whole URIs, paths from the root, names beside the base.
std::string joined(const std::string& base, std::string_view to) {
  if (to.empty()) return base;
  const size_t colon = to.find(':');
  if (colon != std::string_view::npos && colon < to.find('/')) return std::string(to);
  const size_t authority = base.find("://");
  if (to.starts_with('/')) {
    const size_t end = authority == std::string::npos ? 0 : base.find('/', authority + 3);
    return base.substr(0, end) + std::string(to);
  }
  const size_t slash = base.rfind('/');
  const bool has = slash != std::string::npos && (authority == std::string::npos || slash > authority + 2);
  return (has ? base.substr(0, slash + 1) : std::string()) + std::string(to);
}

const std::string* text_at(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? &at->get_ref<const std::string&>() : nullptr;
}

int draft_of(const Json& root) {
  const std::string* said = root.is_object() ? text_at(root, "$schema") : nullptr;
  if (said == nullptr) return 2020;
  for (const auto& [name, draft] : {std::pair("draft-03", 3),
                                    {"draft-04", 4},
                                    {"draft-05", 4},
                                    {"draft-06", 6},
                                    {"draft-07", 7},
                                    {"2019-09", 2019}})
    if (said->contains(name)) return draft;
  return 2020;
}

}  // namespace

Document::Document(const Json& root, Budget& budget, const SchemaReading& reading)
    : root_(root), budget_(budget), reading_(reading), draft_(draft_of(root)) {
  places_.push_back({});
  resources_.push_back({"", &root});
  by_uri_[""] = &resources_.front();
  index(root, &resources_.front(), false, 0);
}

// names: the members are no keywords but names of schemas.
void Document::index(const Json& json, const Resource* in, bool names, int depth) {
  if (depth > 100) return;
  if (json.is_array())
    for (const Json& item : json) index(item, in, false, depth + 1);
  if (!json.is_object()) return;
  if (!names) {
    for (const char* key : {"$id", "id"}) {
      const std::string* id = text_at(json, key);
      if (id == nullptr || (key == std::string_view("id") && draft_ > 4)) continue;
      const size_t hash = std::min(id->find('#'), id->size());
      if (hash > 0) {
        resources_.push_back({joined(in->uri, id->substr(0, hash)), &json});
        in = &resources_.back();
        by_uri_.try_emplace(in->uri, in);
      }
      if (hash + 1 < id->size()) anchors_.try_emplace(in->uri + id->substr(hash), &json);
      break;
    }
    for (const char* key : {"$anchor", "$dynamicAnchor"})
      if (const std::string* anchor = text_at(json, key)) anchors_.try_emplace(in->uri + "#" + *anchor, &json);
    holders_.emplace(&json, in);
  }
  constexpr std::string_view kValues[] = {"enum", "const", "default", "example", "examples"};
  constexpr std::string_view kNames[] = {"properties",  "patternProperties", "$defs",
                                         "definitions", "dependentSchemas",  "dependencies"};
  for (const auto& [key, value] : json.items())
    if (names || std::ranges::find(kValues, key) == std::end(kValues))
      index(value, in, !names && std::ranges::find(kNames, key) != std::end(kNames), depth + 1);
}

const Place* Document::below(const Place* up, std::string_view key, int64_t index) {
  return &places_.emplace_back(Place{up, key, index});
}

std::string Document::path(const Place* place) const {
  std::vector<std::string> parts;
  for (; place->up != nullptr; place = place->up)
    parts.push_back((place->key.empty() && place->index >= 0 ? "" : fmt::format(".{}", place->key.substr(0, 100))) +
                    (place->index >= 0 ? fmt::format("[{}]", place->index) : ""));
  std::string out(reading_.where);
  for (size_t i = parts.size(); i-- > 0 && out.size() < kMostPath;) out += parts[i];
  return out.size() > kMostPath ? out.substr(0, kMostPath) + "..." : out;
}

Status Document::leave_out(const Place* place, std::string_view why) {
  if (!reading_.loose) return invalid("{}: {}", path(place), why);
  warn(place, fmt::format("{}; left out", why));
  return {};
}

void Document::warn(const Place* place, std::string_view why) {
  if (reading_.warnings == nullptr || said_.size() > kMostSaid) return;
  const std::string at = path(place);
  if (!said_.insert(at).second) return;
  reading_.warnings->push_back(said_.size() > kMostSaid ? "further parts of schemas are left out"
                                                        : fmt::format("{}: {}", at, why));
}

Result<const Json*> Document::follow(const Json& holder, const std::string& to) {
  const auto known = holders_.find(&holder);
  const Resource* in = known == holders_.end() ? &resources_.front() : known->second;
  LLADA_TRY_STATUS(budget_.spend(1 + to.size() / 64));
  const Json*& at = followed_[{in, to}];
  if (at != nullptr) return at;
  const size_t hash = std::min(to.find('#'), to.size());
  const std::string fragment = percent_decoded(std::string_view(to).substr(std::min(hash + 1, to.size())));
  const std::string uri = joined(in->uri, to.substr(0, hash));
  const auto resource = by_uri_.find(uri);
  const std::string quoted = spelled(Json(to)).substr(0, 100);
  if (uri.starts_with("http://json-schema.org/") || uri.starts_with("https://json-schema.org/"))
    if (resource == by_uri_.end() && fragment.empty()) return at = &schema_of_schemas();
  if (hash > 0 && resource == by_uri_.end())
    return invalid("found {}, which is in another document; needed a place in this one, like #/$defs/NAME", quoted);
  const Json* found = hash > 0 ? resource->second->root : in->root;
  if (!fragment.empty() && fragment[0] != '/') {
    const auto anchor = anchors_.find((hash > 0 ? uri : in->uri) + "#" + fragment);
    if (anchor == anchors_.end()) return invalid("found {}, needed a place that this schema has", quoted);
    return at = anchor->second;
  }
  for (size_t begin = 1; begin < fragment.size() + 1 && !fragment.empty();) {
    const size_t end = std::min(fragment.find('/', begin), fragment.size());
    std::string part = fragment.substr(begin, end - begin);
    for (const auto& [code, letter] : {std::pair("~1", "/"), {"~0", "~"}})
      for (size_t i = 0; (i = part.find(code, i)) != std::string::npos; ++i) part.replace(i, 2, letter);
    const bool number =
        !part.empty() && part.size() < 6 && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    if (found->is_array() && number && std::stoul(part) < found->size())
      found = &(*found)[std::stoul(part)];
    else if (const auto member = found->is_object() ? found->find(part) : found->end(); member != found->end())
      found = &*member;
    else
      return invalid("found {}, needed a place that this schema has", quoted);
    begin = end + 1;
  }
  return at = found;
}

std::string_view Document::text_of(const Json& value) {
  const auto [at, fresh] = texts_.try_emplace(&value);
  if (fresh) at->second = canonical(value);
  return at->second;
}

bool Document::lists(const Json& list, const Json& value) {
  const auto [at, fresh] = listed_.try_emplace(&list);
  if (fresh) at->second = canonical_values(list);
  const std::string text = canonical(value);
  static_cast<void>(budget_.step(20 + std::ssize(text)));  // whoever reads on sees that nothing is left
  return at->second.contains(text);
}

bool Document::same(const Json& a, const Json& b) {
  const std::string one = canonical(a), other = canonical(b);
  static_cast<void>(budget_.step(20 + std::ssize(one) + std::ssize(other)));
  return one == other;
}

const Automaton* Document::pattern(const std::string& regex) {
  const auto [at, fresh] = patterns_.try_emplace(regex);
  if (fresh) {
    if (const auto read = parse_regex(regex, budget_, Letters::plain, Match::anywhere)) {
      if (auto made = compile(*read, 0, &budget_)) at->second = *std::move(made);
    }
  }
  return at->second ? &*at->second : nullptr;
}

}  // namespace llada::forms
