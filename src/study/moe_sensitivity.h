// How far the headline of a mixture's simulation rests on numbers that nobody measured here: the hybrid line over
// the static mapping, and over TIDE where there is one, with one number at a time at the ends of its range.
#pragma once
#include <string>
#include <vector>

#include "study/moe_simulate.h"

namespace llada {

// Means over the shares of a phase.
struct MoeHeadline {
  std::string phase;
  double over_static = 0, over_tide = 0;  // the latter 0 where there is none
};

struct MoeSensitivityRow {
  std::string number, unit, source;  // a path of the profile, or "guesses"
  char trust = 'I';
  double value = 0;
  std::vector<MoeHeadline> headlines;
};

// The first row is the profile as it stands. Then per number (what the link gives or what mapping costs, what the
// host streams, how often guesses name the next layer's experts, in percent) one row for each end of its range; a
// number whose profile states none is taken a third lower and half higher. Of a recording there are no guesses.
Result<std::vector<MoeSensitivityRow>> moe_sensitivity(const MoeSimulateOptions& options);

}  // namespace llada
