// Parts of an automaton that act alike. The states of a loop (a string's characters, the digits of a number) are a
// region; two regions are alike where the same bytes lead to corresponding states inside, wherever they lead outside.
// So the tokens that stay inside are found once for all strings of a schema.
#pragma once
#include <cstdint>
#include <vector>

#include "forms/automaton.h"

namespace llada::forms {

// A region as seen from one of its states.
struct Region {
  std::vector<int32_t> shape;   // equal for regions that are alike: by inner state and letter what it leads to
  std::vector<int32_t> inside;  // its states in the order in which they are met; the first is the one seen from
  std::vector<int32_t> exits;   // states outside that it leads to, in that order too
};

class Regions {
 public:
  explicit Regions(const Automaton& automaton);

  // Whether the state is on a loop.
  bool loops(int32_t state) const { return loops_[static_cast<size_t>(state)]; }
  bool same(int32_t a, int32_t b) const { return of_[static_cast<size_t>(a)] == of_[static_cast<size_t>(b)]; }
  Region seen_from(int32_t state) const;

 private:
  const Automaton& automaton_;
  std::vector<int32_t> of_;  // strongly connected components
  std::vector<char> loops_;
};

}  // namespace llada::forms
