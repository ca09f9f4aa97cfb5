// A schema as cases: conjunctions of what it asks of each type of value, of which a value fits at least one. Whatever
// combines schemas (allOf, anyOf, oneOf, not, if, $ref, dependencies) is resolved here at one level of a value;
// members and items keep the schemas that they must fit all at once, for later.
//
// Cases may ask for more than the schema does, never for less: each is a part of what is valid.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "forms/json_values.h"
#include "forms/schema_document.h"

namespace llada::forms {

using Clauses = std::vector<Clause>;

struct Case {
  // Types as bits. A number without kInteger has a part behind the point that is not zero.
  enum : unsigned {
    kNull = 1,
    kBoolean = 2,
    kInteger = 4,
    kNumber = 8,
    kString = 16,
    kArray = 32,
    kObject = 64,
    kAll = 127
  };
  unsigned types = kAll;
  unsigned hints = 0;  // types that keywords are about
  bool typed = false;  // `type` says which
  bool open = true;    // no keyword asks for anything

  std::optional<std::vector<const Json*>> values;  // of enum and const: one of these
  std::vector<const Json*> others;                 // none of these

  NumberRange range;
  std::vector<Clause> steps;  // with the number of multipleOf

  int64_t shortest = 0, longest = -1;  // characters; -1: any number
  struct Pattern {
    std::string_view regex;
    const Place* place = nullptr;
    bool denied = false;
  };
  std::vector<Pattern> patterns;
  std::vector<Pattern> formats;  // by name

  int64_t least_items = 0, most_items = -1;
  const Place* unique = nullptr;  // of uniqueItems
  struct List {
    const Json* first = nullptr;  // schemas of the first items
    Clause rest;                  // of those behind; without schema: any
    const Place* place = nullptr;
  };
  std::vector<List> lists;
  struct Held {
    Clause item;
    int64_t least = 1;
  };
  std::vector<Held> held;  // contains

  int64_t least_members = 0, most_members = -1;
  const Place* counted = nullptr;  // minProperties
  struct Object {
    const Json *properties = nullptr, *patterns = nullptr;
    Clause additional;  // without schema: any
    const Place* place = nullptr;
  };
  std::vector<Object> objects;
  std::vector<std::string_view> required, forbidden;
  std::vector<Clause> names;                                 // of members
  std::vector<std::pair<std::string_view, Clause>> members;  // further ones of one member
  struct Closed {
    size_t begin = 0, end = 0;  // of objects or lists, which evaluate
    Clause rest;
  };
  std::vector<Closed> closed_objects, closed_lists;

  // Nothing is asked for of the values that are listed but their types and what they are not.
  bool lists_alone() const {
    return !range.least && !range.most && steps.empty() && shortest == 0 && longest < 0 && patterns.empty() &&
           formats.empty() && least_items == 0 && most_items < 0 && unique == nullptr && lists.empty() &&
           held.empty() && least_members == 0 && most_members < 0 && objects.empty() && required.empty() &&
           forbidden.empty() && names.empty() && members.empty() && closed_objects.empty() && closed_lists.empty();
  }
};

// Bounds of numbers are 0 or of this size.
inline constexpr double kMostBound = 1e15, kLeastBound = 1e-15;

class Cases {
 public:
  explicit Cases(Document& document) : document_(document) {}

  // What fits all clauses.
  Result<std::vector<Case>> of(const Clauses& clauses);
  // The clauses of a member and of an item. Nothing: no value may stand there.
  Result<std::optional<Clauses>> member(const Case& c, std::string_view name);
  std::optional<Clauses> item(const Case& c, int64_t index);

 private:
  using List = std::vector<Case>;
  Result<List> apply(List in, const Clause& clause);
  Result<List> deny(List in, const Clause& clause);
  Result<List> deny_keyword(const Case& in, const Json& schema, const std::string& key, const Json& value,
                            const Place* place);
  Result<List> combined(List in, const Json& s, const Place* place);
  Result<List> any_of(const List& in, const Json& list, const Place* place);
  Result<List> one_of(const List& in, const Json& list, const Place* place);
  Result<List> deny_or_say(List in, const Clause& clause);
  Result<List> condition(List in, const Json& s, const Place* place);
  Result<List> dependent(List in, const std::string& name, const Json& needs, const Place* place);
  Result<Case> keywords(const Json& s, const Place* place);
  Status keyword(const std::string& key, const Json& value, const Json& s, const Place* place, Case& c);
  Status keywords_of_lists(const std::string& key, const Json& value, const Json& s, const Place* place, Case& c);
  Status keywords_of_objects(const std::string& key, const Json& value, const Json& s, const Place* place, Case& c);
  Result<std::optional<int64_t>> count(const Json& value, const Place* place);
  Status bound(const std::string& key, const Json& value, const Json& s, const Place* place, Case& c);
  Status values(const std::string& key, const Json& value, const Place* place, Case& c);
  Result<bool> is_possible(Case& c, int depth);
  Result<List> possible(List in, int depth);
  Result<Clause> reference(const Json& s, const Json& to, const Place* place, bool denied);

  Document& document_;
  std::vector<const Json*> open_;  // schemas that are being read, without a value between
  bool lost_ = false;              // cases are a part of what the schemas allow: that none is left proves nothing
};

bool has_integer(const NumberRange& range);

// Asks for both. False: no value fits.
bool meet(Case& into, const Case& with);

// A keyword that cannot be denied, as some others with some values cannot.
bool asserts(std::string_view key);

unsigned bits_of_type(std::string_view type);  // 0: there is no such type
unsigned bits_of(const Json& value);

}  // namespace llada::forms
