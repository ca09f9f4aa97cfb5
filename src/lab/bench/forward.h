// Whole forwards of a model, timed, with the time of each kind of op.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "bench/machine.h"
#include "engine/model.h"
#include "memory/kv_store.h"
#include "sched/executor.h"

namespace llada::bench {

inline constexpr int64_t kFormRows = 32;

// The least work of a forward, from the list of weights.
struct ForwardWork {
  int64_t multiply_adds_per_row = 0;  // of every matrix that a row passes, head included
  int64_t weight_bytes = 0;           // of all matrices in the kernels' layout, head included
  int64_t expert_bytes = 0;           // of them in experts, of which a row passes experts_used of `experts`
  int64_t experts = 0, experts_used = 0;

  // The bytes that a forward of so many rows reads; for a mixture the expectation, were all experts as likely.
  double bytes_read(int64_t rows) const;
  // The same where each layer touches so many experts, on average.
  double bytes_read_touching(double experts_touched) const;
};
ForwardWork work_of(const Model& model, std::string_view isa);

struct ForwardResult {
  int64_t rows = 0, keys = 0;
  int64_t logits = 0;  // rows whose logits are computed
  double ms = 0;       // median
  double ms_min = 0, ms_max = 0;
  // Median of the extra time of the first forward of this shape: building and verifying its program, and placing its
  // values (devices/value_plan.h), on one thread. The last shapes are kept.
  double new_shape_ms = 0;
  int timings = 0;                                                    // that PeakWatch took
  double gop_per_s = 0, percent_of_int8_peak = 0, read_gb_per_s = 0;  // attention is not counted as work
  std::array<double, kOpKindCount> phase_ms{};                        // medians
  // How much longer a forward of kFormRows rows takes whose head reads each row for a form, in percent. Median over
  // pairs of forwards, one behind the other.
  std::optional<double> form_percent = {};
  // For a mixture: experts that a layer touched, mean over its layers. Then the bytes of weights that the forward read,
  // the time of reading them at the machine's rate, and 100 floor / ms. Each run has a reading just before it (median).
  // best: the fastest reading over the fastest run, which a busy machine disturbs least.
  double experts_touched = 0, read_bytes = 0, floor_ms = 0, percent_of_floor = 0, percent_of_floor_best = 0;
};

// Forwards over one K/V store whose positions count as computed: filled with small random keys and values.
class ForwardTest {
 public:
  // stream_bytes: the size of the memory that the reading beside the forwards goes through.
  static Result<ForwardTest> create(const Model& model, ThreadPool& pool, std::string_view isa, int64_t positions,
                                    int64_t stream_bytes);

  // The experts that a layer of a mixture touches when `inputs` run, mean over its layers.
  Result<double> experts_touched(const StepInputs& inputs);

  // Times forwards of the last `rows` of `keys` positions with logits for all: one to warm up, then `repeats`. Fails
  // where `stopped` is true between two of them.
  Result<ForwardResult> measure(PeakWatch& watch, int64_t rows, int64_t keys, int repeats,
                                const std::function<bool()>& stopped = {});

 private:
  ForwardTest(const Model& model, ThreadPool& pool, KvStore kv);
  const Model* model_;
  ThreadPool* pool_;  // for the reading beside each forward
  KvStore kv_;
  Executor executor_;
  ForwardWork work_;
  ReadTest read_;
};

}  // namespace llada::bench
