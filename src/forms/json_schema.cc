#include "forms/json_schema.h"

#include <utility>

#include "forms/automaton.h"
#include "forms/json_values.h"
#include "forms/nfa.h"
#include "forms/schema_document.h"
#include "forms/schema_write.h"

namespace llada::forms {
namespace {

constexpr int32_t kMostWanted = 30'000;  // states before subsets are taken, where fewer levels need fewer

// Less, where a form of more would be too large. Each is a part of what is valid.
constexpr SchemaLevels kLevels[] = {{kMostNested, kAnyDepth}, {2, 1}, {1, 0}, {1, 0, 5}, {1, 0, 3}};

constexpr int64_t kStepsOfPart = 50;  // to make it, count it and take it away again

constexpr size_t kOnce = 2;  // with nothing inside itself, and all else

}  // namespace

Result<Expr> parse_json_schema(std::string_view text, Budget& budget, const SchemaReading& reading) {
  LLADA_TRY(const Json root, parse_json_text(text, "json_schema"));
  Result<Expr> best = never();
  int64_t least = 0;
  std::vector<std::string> warnings;
  Budget left = budget;
  StringContents contents;
  for (const SchemaLevels& levels : kLevels) {
    if (budget.heaviest != nullptr && &levels != &kLevels[kOnce]) continue;
    std::vector<std::string> said;
    SchemaReading own = reading;
    own.warnings = &said;
    Budget spent = budget;
    Document document(root, spent, own);
    SchemaWriter writer(document, levels, contents);
    auto made = writer.value({{&root, document.top()}}, document.top());
    const bool large = !made && !spent.spend(0);
    if (!made && !large) return made;
    int64_t parts = 0;
    // Where both are huge the later one is smaller.
    const int64_t size = made ? unshared_size(*made, &parts) : INT64_MAX;
    static_cast<void>(spent.step(kStepsOfPart * parts));  // less is left for the next levels
    budget.step_as(spent);
    if (least > 0 && (large || is_never(*made) || (size >= least && size < kHuge))) continue;
    if (levels.deepest < SchemaLevels().deepest)
      said.push_back(fmt::format("{}: too large, so objects and lists stand at most {} deep in each other",
                                 reading.where, levels.deepest));
    if (budget.heaviest != nullptr && (made || large))
      if (auto found = writer.heaviest(); found.cost > budget.heaviest->cost) *budget.heaviest = std::move(found);
    best = std::move(made), least = size, warnings = std::move(said), left = spent;
    if (best && has_parts(*best, kMostWanted)) break;
  }
  left.step_as(budget);
  budget = left;
  if (best && is_never(*best)) return invalid("{}: no value fits the schema", reading.where);
  if (best && reading.warnings != nullptr)
    for (std::string& line : warnings) reading.warnings->push_back(std::move(line));
  return best;
}

}  // namespace llada::forms
