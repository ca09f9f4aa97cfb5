// A form as a deterministic automaton over bytes: Thompson's construction, subsets, Hopcroft's minimisation. States
// from which no text is complete are gone. Bounded: an expression that needs more states is an error.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "forms/expression.h"

namespace llada::forms {

inline constexpr int32_t kMostParts = 400'000;  // states before subsets are taken
inline constexpr int32_t kMostStates = 20'000;

struct Automaton {
  static constexpr int32_t kDead = -1;

  std::array<uint8_t, 256> letter{};  // of a byte: bytes that act alike in every state are one letter
  int32_t letters = 0;
  std::vector<int32_t> next;   // states x letters
  std::vector<char> complete;  // by state: the text may end here
  int32_t start = 0;

  int32_t states() const { return static_cast<int32_t>(complete.size()); }
  int32_t step(int32_t state, uint8_t byte) const {
    return next[static_cast<size_t>(state) * static_cast<size_t>(letters) + letter[byte]];
  }
  bool fits(std::string_view text) const;
};

// Drops states that are not reached or from which nothing is complete, and joins those that act alike.
void reduce(Automaton& a);

// States before subsets are taken, which compile() bounds; kMostParts: at least so many.
int32_t parts_of(const Expr& expression);

// Invalid: too many states, or no text at all fits.
Result<Automaton> compile(const Expr& expression);

}  // namespace llada::forms
