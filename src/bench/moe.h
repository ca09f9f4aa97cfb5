// One layer's experts of a mixture, as the cpu device runs them: how near to the time that reading the
// touched experts takes, and to what it would cost to run every expert on every row.
//
// Routing is synthetic and said beside each figure: what a real model routes depends on its weights, and
// random hidden states through random routers need not look like it. `uniform`: each row draws its experts
// independently, all as likely, which touches the most experts that a step can be expected to. `skewed`: the
// same with probabilities that fall as 1/rank (Zipf), over a random order of the experts.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "bench/machine.h"
#include "devices/cpu/cpu_experts.h"
#include "devices/cpu/cpu_weights.h"
#include "kernels/kernels.h"
#include "models/model_graph.h"

namespace llada::bench {

enum class MoeRouting { uniform, skewed };
std::string_view name(MoeRouting routing);

// rows x experts gates: `used` of each row are 1 / used, the others 0.
std::vector<float> synthetic_gates(MoeRouting routing, int64_t rows, int64_t experts, int64_t used, uint64_t seed);

struct MoeResult {
  MoeRouting routing{};
  int64_t rows = 0, experts = 0, used = 0, width = 0, inner = 0;  // inner: of one expert
  int64_t touched = 0;                                            // experts with a row
  int64_t bytes = 0;                                              // of the touched experts, in the kernels' layout
  double read_gb_per_s = 0;               // of the machine, measured in turns with the runs; median
  double floor_ms = 0;                    // to read so many bytes at that rate
  double ms = 0, ms_min = 0, ms_max = 0;  // gather, products, activation, sum; median
  double percent_of_floor = 0;            // 100 floor / ms, each run with the reading just before it; median
  double percent_of_floor_best = 0;       // the fastest reading over the fastest run: what a busy machine hides
  double dense_ms = 0;                    // every row through every expert
};

// Experts with random weights, of a model's geometry.
class MoeTest {
 public:
  static Result<MoeTest> create(const kernels::KernelTable& table, ThreadPool& pool, const ModelConfig& config,
                                DType type);

  // `read` measures the machine's rate.
  Result<MoeResult> measure(MoeRouting routing, int64_t rows, const ReadTest& read, int repeats);

  int64_t expert_bytes() const;  // in the kernels' layout

 private:
  Status run(const std::vector<float>& gates, int64_t rows, int16_t used);
  void reserve(int64_t rows);

  const kernels::KernelTable* table_ = nullptr;
  ThreadPool* pool_ = nullptr;
  AlignedBytes stored_;
  std::shared_ptr<const CpuWeights> weights_;
  int64_t experts_ = 0, used_ = 0, width_ = 0, inner_ = 0;
  std::unique_ptr<CpuExperts> run_ = std::make_unique<CpuExperts>();
  std::vector<float> x_, out_;
};

}  // namespace llada::bench
