// A layer's mixture of experts on the GPU: rows grouped by expert, one pass over each expert's weights. Without a plan
// the GPU computes all experts in its memory. With one it computes its share while the host computes the other, and
// products of a moved expert start piece by piece as they arrive.
#pragma once

#include "devices/cuda/expert_slots.h"
#include "devices/cuda/weights.h"
#include "devices/device.h"

namespace llada::cuda {

class ExpertRun {
 public:
  struct Job {
    const Weights* weights;
    const Op* op;
    const float *x, *gates;  // device: rows x width, rows x experts
    int64_t rows;
    float* out;  // device
    cudaStream_t stream;
    bool tensor_cores = false;  // for types that have kernels for them
    // With a plan: the same gates in host memory, and the host's part.
    const float* host_gates = nullptr;
    const ExpertsPlan* plan = nullptr;
    std::function<Status(std::span<const int32_t> experts)> host = {};  // writes their sum to host_out
    const float* host_out = nullptr;                                    // pinned, rows x width
  };
  Status run_all(const Job& job);
  Status run_plan(ExpertSlots& slots, const Job& job);

 private:
  Status prepare(const Job& job);
  // One of the three products of experts in `order`, or of `only` whose matrix is `weights`.
  void multiply(const Job& job, int slot, const int32_t* order, int64_t experts, int64_t most_rows,
                const uint8_t* const* table, const uint8_t* only_weights = nullptr, int32_t only = 0) const;
  void activate(const Job& job, int64_t begin, int64_t count) const;
  bool on_tensor_cores(const Job& job, size_t slot) const;
  void add_up(const Job& job, const uint8_t* here, const float* others) const;

  // The share of one unit in a plan.
  struct Share {
    std::vector<int32_t> rows, begins;         // of each expert, and where they begin among the gathered rows
    std::vector<uint8_t> here;                 // by expert: the GPU's
    std::vector<int32_t> arrived, late, host;  // the GPU's that are there, those on their way; the host's

    explicit Share(const Job& job);
    // Failed: the plan does not have every expert that has rows once, with that number of rows; or gives the GPU one
    // that is neither there nor moved.
    Status take(const ExpertsPlan& plan, ExpertSlots& slots);
  };
  Status send_plan(const ExpertSlots& slots, const Job& job, const Share& share);
  void multiply_arrived(const Job& job, const Share& share) const;
  // Piece by piece.
  Status multiply_moved(ExpertSlots& slots, const Job& job, const Share& share, int32_t expert) const;
  Status run_share(ExpertSlots& slots, const Job& job, const Share& share);

  DeviceBytes memory_;
  ExpertRows rows_{};
  float *gate_ = nullptr, *up_ = nullptr, *y_ = nullptr, *others_ = nullptr;
  SplitRows split_x_, split_hidden_;
  uint8_t* plan_ = nullptr;  // here, order, and three tables of a plan
  PinnedBytes pinned_;       // of plan_
  Event plan_copied_;        // from there to plan_
};

}  // namespace llada::cuda
