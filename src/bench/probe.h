// How fast this machine multiplies, measured in a few seconds, and the time of a model's forward that follows. Products
// of Q4_0 weights that are streamed from memory are measured. A forward's time is modelled from them, without
// attention, norms and the choice of tokens, which take 5 to 15 % of one.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace llada::bench {

struct ProbedWeights {
  double dense = 0;           // weights that each row is multiplied with
  double in_experts = 0;      // in all experts of all layers
  int experts = 0, used = 0;  // experts of a layer, and of a row
};

struct Probe {
  std::string cpu, isa;
  int threads = 0;
  double seconds = 0;                                 // that the probe took
  std::vector<std::pair<double, double>> per_weight;  // rows (ascending), seconds of a product / its weights

  double seconds_per_weight(double rows) const;
  double forward_seconds(const ProbedWeights& weights, double rows) const;
};

// Takes at most five seconds: after two, no larger number of rows is measured. threads, isa: as in LoadOptions.
Result<Probe> probe_machine(int threads, const std::string& isa);

}  // namespace llada::bench
