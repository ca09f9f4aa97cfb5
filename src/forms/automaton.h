// A form as a deterministic automaton over bytes (DFA): subset construction, Hopcroft's minimisation. States from which
// no text is complete are removed. Where an expression needs too many states, its largest repeats become loops, whose
// bounds are counted beside the automaton (nfa.h); where that does not help it is an error.
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

  std::array<uint8_t, 256> letter{};  // by byte: its class; bytes that act alike in every state are one letter
  int32_t letters = 0;
  std::vector<int32_t> next;   // states x letters
  std::vector<char> complete;  // by state: the text may end here
  int32_t start = 0;
  std::shared_ptr<const Counted> counted;  // null: no loop has a bound

  int32_t states() const { return static_cast<int32_t>(complete.size()); }
  int32_t step(int32_t state, uint8_t byte) const {
    return next[static_cast<size_t>(state) * static_cast<size_t>(letters) + letter[byte]];
  }
  bool fits(std::string_view text) const;
};

// Drops states that are not reached or from which nothing is complete, and joins those that act alike.
void reduce(Automaton& a);

// Whether the nondeterministic automaton of the last level (nfa.h) has at most so many states.
bool has_parts(const Expr& expression, int32_t most);

// level: of nfa.h; 0: no loops with bounds. budget: pays for the work where it is not null. Invalid: too many states,
// or no text fits.
Result<Automaton> compile(const Expr& expression, int level = 0, Budget* budget = nullptr);

}  // namespace llada::forms
