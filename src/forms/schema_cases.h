// A schema as cases (a disjunctive normal form), of which a value must fit one. A case has the constraints on each type
// of value. Keywords that combine schemas (allOf, anyOf, oneOf, not, if, $ref, dependencies) are resolved here for one
// level of a value. Members and items keep the list of schemas that they must fit.
//
// A case may be stricter than the schema, never looser: all values that fit it are valid.
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
  unsigned hints = 0;  // types that keywords constrain
  bool typed = false;  // the keyword `type` is there
  bool open = true;    // no keyword constrains anything

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
    Clause rest;                  // of the items behind; without a schema: any
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
    Clause additional;  // without a schema: any
    const Place* place = nullptr;
  };
  std::vector<Object> objects;
  std::vector<std::string_view> required, forbidden;
  std::vector<Clause> names;                                 // of members
  std::vector<std::pair<std::string_view, Clause>> members;  // further clauses of one member
  struct Closed {
    size_t begin = 0, end = 0;  // of `objects` or `lists`, which evaluate members or items
    Clause rest;
  };
  std::vector<Closed> closed_objects, closed_lists;

  // Whether only types, `values` and `others` are constrained.
  bool lists_alone() const {
    return !range.least && !range.most && steps.empty() && shortest == 0 && longest < 0 && patterns.empty() &&
           formats.empty() && least_items == 0 && most_items < 0 && unique == nullptr && lists.empty() &&
           held.empty() && least_members == 0 && most_members < 0 && objects.empty() && required.empty() &&
           forbidden.empty() && names.empty() && members.empty() && closed_objects.empty() && closed_lists.empty();
  }

  int64_t size() const;  // entries of its lists
};

// Bounds of numbers are 0 or have a size between these.
inline constexpr double kMostBound = 1e15, kLeastBound = 1e-15;

class Cases {
 public:
  explicit Cases(Document& document) : document_(document) {}

  // The cases of values that fit all clauses.
  Result<std::vector<Case>> of(const Clauses& clauses);
  // The clauses of a member and of an item; nothing where none may be there.
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
  // Adds the constraints of `with`. False: no value fits.
  bool meet(Case& into, const Case& with);
  Status take_steps(const List& in);
  Result<bool> is_possible(Case& c, int depth);
  Result<List> possible(List in, int depth);
  Status enter(const Clause& clause);  // open_ has its schema until the caller takes it off again
  Result<Clause> reference(const Json& s, const Json& to, const Place* place, bool denied);

  Document& document_;
  std::vector<const Json*> open_;  // schemas that are being read, without a value between
  int looks_ = 0;                  // calls of is_possible() under way that read a member or an item
  bool lost_ = false;              // cases were dropped, so that no case left does not prove that nothing is valid
};

bool has_integer(const NumberRange& range);

// Whether the negation of the keyword is refused, but for values that Cases handles.
bool asserts(std::string_view key);

unsigned bits_of_type(std::string_view type);  // 0: there is no such type
unsigned bits_of(const Json& value);

}  // namespace llada::forms
