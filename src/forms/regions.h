// Parts of an automaton that act alike. A region is the states that many bytes may follow (a string's characters, the
// letters of a word), with those in the middle of such a character. Two regions are alike, as seen from one state of
// each, where the same bytes lead to corresponding inner states. So the tokens that stay inside are found once for all
// strings of a schema, and for all places in a long string of bounded length. Only kReach bytes are followed: longer
// tokens do not fit in a region unless all its states are met within these, as in a loop.
#pragma once
#include <cstdint>
#include <vector>

#include "forms/automaton.h"

namespace llada::forms {

inline constexpr int kReach = 24;

// A region as seen from one of its states.
struct Region {
  static constexpr int32_t kNowhere = -1, kFirstExit = -2;
  // By inner state and letter: the next inner state, kNowhere, or kFirstExit - i for exit i. Regions that are alike
  // have equal shapes.
  std::vector<int32_t> shape;
  std::vector<int32_t> inside;  // its states in the order in which they are met; the first is the one seen from
  std::vector<int32_t> exits;   // states outside that it leads to, in that order too
};

class Regions {
 public:
  explicit Regions(const Automaton& automaton);

  // Whether the state is in a region.
  bool has(int32_t state) const { return of_[static_cast<size_t>(state)] >= 0; }
  Region seen_from(int32_t state);

 private:
  const Automaton& automaton_;
  std::vector<int32_t> of_;              // by state: its region, -1: none
  std::vector<int32_t> stamp_, number_;  // by state: numbers of the region that was seen last
  int32_t seen_ = 0;
};

}  // namespace llada::forms
