// A schema's text as a document: places in it, what references lead to, which draft it is written for, and what is
// said of whatever cannot be followed. And whether a value that stands in it (of enum, const) fits a schema.
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

// Written out as a path only where a line names it.
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

// Whether of the two drafts' rules the later counts: numbers of drafts as 4, 6, 7, 2019, 2020; 3 where it is said.
class Document {
 public:
  Document(const Json& root, Budget& budget, const SchemaReading& reading);

  const Json& root() const { return root_; }
  int draft() const { return draft_; }
  Budget& budget() { return budget_; }
  CallForm spelling() const { return reading_.spelling; }

  const Place* top() const { return &places_.front(); }
  const Place* below(const Place* up, std::string_view key, int64_t index = -1);
  std::string path(const Place* place) const;  // shortened

  // Strict: the error; else a warning, once for each place.
  Status leave_out(const Place* place, std::string_view why);
  // A warning of answers that are valid and are never given.
  void warn(const Place* place, std::string_view why);

  // Where the reference `to` of the schema `holder` leads.
  Result<const Json*> follow(const Json& holder, const std::string& to);

  // Of a list of values, as `enum` has it.
  bool lists(const Json& list, const Json& value);

  // The automaton of a regular expression that is found in plain text; null: it cannot be read.
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
  std::set<std::string> said_;
};

// Whether a value of the document fits a schema of it; nothing: it is not known.
std::optional<bool> holds(Document& document, const Json& schema, const Json& value, int depth = 0);

bool is_of_type(const Json& value, std::string_view type);
bool same_value(const Json& a, const Json& b);
std::string canonical(const Json& value);  // one text for values that are the same
std::set<std::string> canonical_values(auto&& list) {
  std::set<std::string> all;
  for (const auto& value : list) all.insert(canonical(value));
  return all;
}

}  // namespace llada::forms
