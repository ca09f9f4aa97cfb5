// A schema's document as an expression: its cases, one value below another.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "forms/expression.h"
#include "forms/schema_cases.h"
#include "forms/schema_document.h"

namespace llada::forms {

bool is_never(const Expr& e);
// One of the parts, or all in order, where a part may be never().
Expr some_of(std::vector<Expr> parts);
Expr all_of(std::vector<Expr> parts);
// From `least` to `most` (-1: any number) of the parts in their order, all required ones among them; of about kInOrder
// further parts for each of them and each number.
inline constexpr size_t kInOrder = 6;
Expr in_order(const std::vector<Expr>& parts, const std::vector<bool>& required, int64_t least, int64_t most,
              std::string_view between);

struct SchemaLevels {
  int nested = 4;      // how often a reference may be followed inside itself
  int64_t any = 3;     // levels of values that the schema leaves open
  int deepest = 1000;  // levels of objects and lists
};

// Texts of strings by their constraints, and of regular expressions, which are the same at all levels and often at many
// places of a schema.
struct StringContents {
  struct Part {
    enum class Kind { format, pattern, other, length };
    Kind kind = Kind::other;
    size_t index = 0;  // of formats, of patterns
  };
  struct Content {
    Expr texts;
    std::vector<std::pair<Part, std::string>> left_out;  // with the reason
  };
  std::map<std::string, Content> made;
  std::map<std::string, Expr> patterns;
};

class SchemaWriter {
 public:
  SchemaWriter(Document& document, const SchemaLevels& levels, StringContents& contents);
  // Texts of values that fit all clauses.
  Result<Expr> value(const Clauses& clauses, const Place* place) { return value(clauses, place, levels_.nested); }
  // The costliest part of the value that was read: in states or, where it was too large to be read, in parts.
  Budget::Heaviest heaviest() const;

 private:
  using Key = std::pair<std::vector<std::pair<const Json*, bool>>, int>;
  Result<Expr> value(const Clauses& clauses, const Place* place, int left);
  Result<Expr> of_cases(const Clauses& clauses, std::vector<Case> cases, const Place* place, int left);
  std::optional<std::string> only_text(const Json& value, const Case& c) const;
  Result<Expr> of_case(const Case& c, const Place* place, int left);
  Result<std::vector<std::string>> listed(const Clauses& clauses, const std::vector<Case>& cases, const Place* place);
  Result<Expr> string(const Case& c, const Place* place);
  Result<Expr> content(const Case& c, const Place* place, Letters letters);  // null: any
  Result<Expr> new_content(const Case& c, const Place* place, Letters letters,
                           std::vector<std::pair<StringContents::Part, std::string>>& left_out);
  const Place* place_of(const Case& c, const Place* place, StringContents::Part part) const;
  Result<Expr> pattern(std::string_view regex, Letters letters);  // as an automaton
  Result<Expr> number(const Case& c, const Place* place);
  Result<Expr> array(const Case& c, const Place* place, int left);
  Result<Expr> object(const Case& c, const Place* place, int left);
  Result<Expr> dictionary(const Case& c, const Place* place, int left);
  Result<Expr> key(const Case& names, const Place* place);
  Result<std::optional<Expr>> unique_items(const Clauses& item, const Case& c, const Place* place);

  struct Written {  // a value; kept where the budget asks for the heaviest
    const Json* schema;
    const Place* place;
    Expr made = {};
    size_t spent = 0;
    std::vector<size_t> below = {};
  };

  Document& document_;
  Budget& budget_;
  StringContents& contents_;
  std::vector<Written> written_;
  std::vector<size_t> within_;  // of these, the outermost first
  const CallForm spelling_;
  const SchemaLevels levels_;
  const Expr any_;
  Cases cases_;
  std::map<Key, Expr> made_;
  std::set<Key> open_;
  int depth_ = 0;
};

}  // namespace llada::forms
