// Which requests take part in the next forward: a pure rule over numbers. Rows of one forward share the read of the
// weights, so they cost little up to some number of rows and their full price behind it. That number is the budget.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace llada {

inline constexpr double kHeavySeconds = 2e-3;  // a heavy step has more

struct WaitingStep {
  int64_t rows = 0;         // that its next forward computes
  int64_t passed_over = 0;  // forwards since its last one that it was not part of
  double seconds = 0;       // that its last step took beside the forward: the solving of a heavy form
};

// Indices of `oldest_first`, ascending. Whoever has been passed over `patience` times or more comes first, the longest
// waiting of them before all; then the oldest. Each takes part if the budget has room left for its rows. The first does
// in any case, so that every forward serves somebody and a request larger than the budget has its turn too. Steps that
// are heavy beside the forward take turns where others are not, so that these wait for few of them. Heavy ones take
// part while they have at most `seconds` together.
//
// Nobody is passed over more than patience + n - 1 times in a row while at most n requests run. Once a request is
// impatient, every forward serves the first of those that wait at least as long, and there are at most n - 1 of them.
std::vector<size_t> pick(std::span<const WaitingStep> oldest_first, int64_t row_budget, int64_t patience,
                         double seconds = kHeavySeconds);

// The fewest rows at which a row costs at most a tenth more than where it is cheapest. The points ascend in rows.
int64_t row_budget(std::span<const decode::LatencyPoint> rows_to_ms);

// The budget as the forwards that are run anyway teach it: the devices, weights and settings that it is for, at no cost
// of time. It begins with kFirst rows. The cheapest forward of each size is remembered. Where the largest size that was
// seen is the best one, the next larger one is tried. It is tried again now and then, since a slow forward may have
// been interrupted. Company changes no answer, so neither does a learned budget.
class RowBudget {
 public:
  static constexpr int64_t kFirst = 64, kMost = 128;
  static constexpr int64_t kMostOfMixture = 256;  // whose experts serve more rows at once

  explicit RowBudget(int64_t most) : most_(most) {}
  void ran(int64_t rows, double seconds);
  int64_t rows() const { return rows_; }

 private:
  const int64_t most_;
  int64_t rows_ = kFirst, forwards_ = 0;
  std::vector<decode::LatencyPoint> sizes_;  // ascending: up to so many rows, of which so many take `ms` at least
};

}  // namespace llada
