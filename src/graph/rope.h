// Rotary positions (RoFormer, arXiv 2104.09864): pair j of a head's vector is turned by position * frequency[j]. The
// models' published rules for it (theta, factors, YaRN) become a list of frequencies and one magnitude when a program
// is made, so devices know no rule. A factor on queries that depends on their position goes with their rotation.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/query_scale.h"
#include "base/yarn.h"

namespace llada {

// How a head's vector turns; a device reads nothing else.
struct Rope {
  int16_t rotary = 0;               // leading elements that turn, two for each frequency
  bool adjacent = false;            // pairs (2j, 2j + 1); otherwise (j, j + rotary / 2)
  std::vector<double> frequencies;  // radians per position, by pair
  double magnitude = 1;             // factor on cosines and sines
  QueryScale scale = {};            // further factor on the turned elements of queries, by position
  bool operator==(const Rope&) const = default;
};

// The rule as a model's configuration says it.
struct RopeRule {
  int64_t rotary = 0;
  bool adjacent = false;
  double theta = 0;
  std::vector<float> divisors = {};  // of the frequencies, by pair (rope_freqs.weight of GGUF files); empty: none
  std::optional<Yarn> yarn = {};
  QueryScale scale = {};
};

// Invalid: a rule that gives frequencies that are no numbers.
Result<Rope> make_rope(const RopeRule& rule);

}  // namespace llada
