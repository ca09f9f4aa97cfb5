// An expression as a nondeterministic automaton over bytes: Thompson's construction, from the end to the beginning.
//
// A repeat costs its part once for each time that it may stand there: a string of up to 10,000 characters is half a
// million states. So repeats above a size are loops instead, whose bounds are kept apart: the states around such a loop
// say where its count begins, goes on and ends (Counted).
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "forms/expression.h"

namespace llada::forms {

inline constexpr int32_t kMostParts = 400'000;  // states before subsets are taken
// By level: repeats that would add more states than this are loops.
inline constexpr int64_t kLoopsAbove[] = {INT64_MAX, 400};
inline constexpr int kLastLevel = 1;

struct Nfa {
  struct Edge {
    ByteRange range;
    int32_t to;
  };
  enum class Count : uint8_t { none, begin, next, end };
  struct State {
    std::vector<Edge> edges = {};
    std::vector<int32_t> free = {};  // taken without a byte
    Count count = Count::none;
    int32_t most = 0;  // of `next`
  };

  std::vector<State> states;
  int32_t start = 0, end = 0;
  bool counts = false;  // there are loops with bounds

  // Invalid: more states than `most`.
  static Result<Nfa> of(const Expr& expression, int level, int32_t most = kMostParts);
};

// Whether there are repeats that are loops at this level and not at the one before it.
bool has_loops_at(const Expr& expression, int level);

// States at the last level, up to kHuge, where nothing that stands at several places is shared: cheap to tell, and no
// fewer than there are.
inline constexpr int64_t kHuge = int64_t{1} << 40;
int64_t unshared_size(const Expr& expression);

// Reads texts with the counts of loops. It keeps few ways to read a text, those with the least counts: a text that fits
// may be refused where there are very many, and never the other way round.
class Counted {
 public:
  static constexpr size_t kDeepest = 6;  // loops in loops; below these repeats are no loops
  struct Way {
    int32_t state = 0;
    int32_t open = 0;                           // loops around it
    std::array<int32_t, kDeepest> counts = {};  // of these, the outermost first
  };
  using Ways = std::vector<Way>;

  explicit Counted(const Nfa& nfa);

  Ways begin() const;
  // False: no way is left. steps: of work, which are added up.
  bool read(Ways& ways, std::string_view text, int64_t& steps) const;
  bool complete(const Ways& ways) const;
  int64_t bytes() const;

 private:
  struct State {
    int32_t edges, free, most;  // the first ones of it
    Nfa::Count count;
  };
  void add(Way way, Ways& found, int64_t& steps) const;

  std::vector<State> states_;  // and one behind the last
  std::vector<Nfa::Edge> edges_;
  std::vector<int32_t> free_;
  int32_t start_, end_;
};

}  // namespace llada::forms
