// A form as a deterministic automaton over bytes: subsets of a nondeterministic one, Hopcroft's minimisation. States
// from which no text is complete are gone. Bounded: of an expression that needs more states the largest repeats become
// loops, whose bounds are counted beside the automaton (nfa.h); where that does not help it is an error.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "forms/expression.h"

namespace llada::forms {

inline constexpr int32_t kMostStates = 40'000;

class Counted;

struct Automaton {
  static constexpr int32_t kDead = -1;

  std::array<uint8_t, 256> letter{};  // of a byte: bytes that act alike in every state are one letter
  int32_t letters = 0;
  std::vector<int32_t> next;   // states x letters
  std::vector<char> complete;  // by state: the text may end here
  int32_t start = 0;
  std::shared_ptr<const Counted> counted;  // null: none that has a bound

  int32_t states() const { return static_cast<int32_t>(complete.size()); }
  int32_t step(int32_t state, uint8_t byte) const {
    return next[static_cast<size_t>(state) * static_cast<size_t>(letters) + letter[byte]];
  }
  bool fits(std::string_view text) const;
};

// Drops states that are not reached or from which nothing is complete, and joins those that act alike.
void reduce(Automaton& a);

// Whether there are at most so many states before subsets are taken, with as many loops as there may be.
bool has_parts(const Expr& expression, int32_t most);

// At a level (nfa.h); 0: there are no loops with bounds. Invalid: too many states, or no text at all fits.
Result<Automaton> compile(const Expr& expression, int level = 0);

}  // namespace llada::forms
