// How long a benchmark will take: from the machine's ceilings at first, then corrected by the ratio of measured to
// estimated times. Good to a factor of two at first; only the progress on the screen uses it.
#pragma once
#include <cstdint>
#include <span>

#include "bench/machine.h"
#include "engine/model.h"
#include "graph/program.h"
#include "tensor/dtype.h"

namespace llada::bench {

struct BenchOptions;

class Estimate {
 public:
  Estimate() = default;
  Estimate(const BenchOptions& options, const Ceilings& ceilings, const ModelConfig& config,
           std::span<const WeightInfo> weights, bool preset);

  // One unit of each kind, in seconds, as the ceilings have it.
  double product_s(int64_t k, int64_t n, int64_t rows, DType type) const;
  double forwards_s(int64_t rows) const;
  double run_s() const;  // one way of the whole runs
  double load_s() const;

  // Notes a unit that took taken_s seconds where expected_s were expected.
  void measured(double expected_s, double taken_s);

  double done_s() const { return taken_s_; }
  // Seconds of all units, where those that are left go at the pace of those that are done.
  double all_s() const;

 private:
  double forward_s(double rows) const;
  double read_bytes_per_s_ = 1, operations_per_s_ = 1;
  double weight_bytes_ = 0, multiply_adds_ = 0, parameters_ = 0;
  double repeats_ = 0, stream_bytes_ = 0, prompt_ = 0, gen_ = 0, block_ = 0, per_step_ = 0;
  double all_expected_s_ = 0, done_expected_s_ = 0, taken_s_ = 0;
};

}  // namespace llada::bench
