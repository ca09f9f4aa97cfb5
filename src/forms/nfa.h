// An expression as a nondeterministic automaton over bytes (NFA): Thompson's construction, backwards.
//
// A repeat has the states of its part once for each time that it may occur: a string of up to 10,000 characters has
// half a million. So repeats above a size become loops, whose bounds Counted keeps. The states around such a loop mark
// where its count begins, goes on and ends.
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

inline constexpr int32_t kMostParts = 400'000;  // states of an Nfa
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
    std::vector<int32_t> free = {};  // epsilon edges
    Count count = Count::none;
    int32_t most = 0;  // with Count::next: the loop's bound
  };

  std::vector<State> states;
  int32_t start = 0, end = 0;
  bool counts = false;  // there are loops with bounds

  // Invalid: more states than `most`.
  static Result<Nfa> of(const Expr& expression, int level, int32_t most = kMostParts);
};

// Whether a repeat is a loop at this level and not at the one before.
bool has_loops_at(const Expr& expression, int level);

// Upper bound on the states at the last level, at most kHuge, cheap to compute: shared parts count at each place.
// parts: gets the number of parts, of which shared ones count once.
inline constexpr int64_t kHuge = int64_t{1} << 40;
int64_t unshared_size(const Expr& expression, int64_t* parts = nullptr);

// Reads texts with the counts of loops. It keeps few ways to read a text, those with the lowest counts. So a text that
// fits may be refused where there are very many ways, but no text that does not fit is taken.
class Counted {
 public:
  static constexpr size_t kDeepest = 6;  // loops in loops; deeper repeats are written out
  struct Way {
    int32_t state = 0;
    int32_t open = 0;                           // loops around it
    std::array<int32_t, kDeepest> counts = {};  // of these, the outermost first
  };
  using Ways = std::vector<Way>;

  explicit Counted(const Nfa& nfa);

  Ways begin() const;
  // False: no way is left. steps: the work is added to it.
  bool read(Ways& ways, std::string_view text, int64_t& steps) const;
  bool complete(const Ways& ways) const;
  int64_t bytes() const;

 private:
  struct State {
    int32_t edges, free, most;  // its first edge and epsilon edge; the loop's bound
    Nfa::Count count;
  };
  void add(Way way, Ways& found, int64_t& steps) const;

  std::vector<State> states_;  // and one behind the last
  std::vector<Nfa::Edge> edges_;
  std::vector<int32_t> free_;
  int32_t start_, end_;
};

}  // namespace llada::forms
