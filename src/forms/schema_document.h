// A schema's text as a document: its draft, places in it, the targets of references, errors and warnings about parts
// that cannot be followed. Also whether a value that stands in it (of enum, const) fits a schema.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "forms/automaton.h"
#include "forms/json_schema.h"
#include "forms/json_values.h"

namespace llada::forms {

// A place in the document as a chain to the root; path() writes it out.
struct Place {
  const Place* up = nullptr;
  std::string_view key;  // of the document, or a literal
  int64_t index = -1;    // of a list
};

// A schema that a value must fit, or must not.
struct Clause {
  const Json* schema = nullptr;
  const Place* place = nullptr;
  bool denied = false;
};

class Document {
 public:
  Document(const Json& root, Budget& budget, const SchemaReading& reading);

  const Json& root() const { return root_; }
  int draft() const { return draft_; }  // 3, 4, 6, 7, 2019 or 2020
  Budget& budget() { return budget_; }
  CallForm spelling() const { return reading_.spelling; }

  const Place* top() const { return &places_.front(); }
  const Place* below(const Place* up, std::string_view key, int64_t index = -1);
  std::string path(const Place* place) const;  // shortened

  // An error, or with a loose reading a warning, once for each place.
  Status leave_out(const Place* place, std::string_view why);
  // Warns that some valid answers are never given.
  void warn(const Place* place, std::string_view why);

  // The schema to which the reference `to` of the schema `holder` leads.
  Result<const Json*> follow(const Json& holder, const std::string& to);

  // canonical() of a value of the document, kept by its address.
  std::string_view text_of(const Json& value);
  // Whether a list of values, as of `enum`, has this one; whether two are the same.
  bool lists(const Json& list, const Json& value);
  bool same(const Json& a, const Json& b);

  // The automaton of texts in which the regular expression matches somewhere; null: it cannot be read.
  const Automaton* pattern(const std::string& regex);

 private:
  struct Resource {
    std::string uri;
    const Json* root = nullptr;
  };
  void index(const Json& json, const Resource* in, bool names, int depth);

  const Json& root_;
  Budget& budget_;
  const SchemaReading& reading_;
  int draft_ = 2020;
  std::deque<Place> places_;
  std::deque<Resource> resources_;
  std::map<std::string, const Resource*> by_uri_;
  std::map<std::string, const Json*> anchors_;                // URI#NAME
  std::unordered_map<const Json*, const Resource*> holders_;  // of references
  std::map<std::pair<const Resource*, std::string>, const Json*> followed_;
  std::map<std::string, std::optional<Automaton>> patterns_;
  std::map<const Json*, std::set<std::string>> listed_;
  std::unordered_map<const Json*, std::string> texts_;
  std::set<std::string> said_;
};

// Whether a value of the document fits a schema of it; nothing: not known.
std::optional<bool> holds(Document& document, const Json& schema, const Json& value, int depth = 0);

bool is_of_type(const Json& value, std::string_view type);
bool same_value(const Json& a, const Json& b);
std::string canonical(const Json& value);  // equal values have equal texts
std::set<std::string> canonical_values(auto&& list) {
  std::set<std::string> all;
  for (const auto& value : list) all.insert(canonical(value));
  return all;
}

}  // namespace llada::forms
