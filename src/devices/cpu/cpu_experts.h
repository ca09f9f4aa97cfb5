// A mixture of experts on the CPU: rows are grouped by expert, so that each touched expert's weights are read
// once per step whatever the number of its rows. All touched experts' work of one phase is one list of tasks
// for the threads: no thread waits for the end of an expert.
#pragma once
#include <span>
#include <vector>

#include "devices/cpu/cpu_weights.h"

namespace llada {

class CpuExperts {
 public:
  struct Job {
    const kernels::KernelTable* kernels;
    ThreadPool* pool;
    std::span<const CpuWeight> weights;
    const Op* op;
    const float* x;      // rows x width
    const float* gates;  // rows x experts
    int64_t rows;
    float* out;  // rows x width
  };
  Status run(const Job& job);
  int64_t touched() const { return static_cast<int64_t>(groups_.size()); }  // experts with a row in the last run
  int64_t memory_bytes() const { return bytes_; }

 private:
  // The rows of one touched expert, at [begin, begin + count) of the gathered rows.
  struct Group {
    int expert;
    int64_t begin, count;
    int64_t activations;  // offset in bytes
  };
  struct Matrix {
    const float* x;
    float* y;
    int slot;  // of op.weight
  };
  void group_rows(const Job& job);
  Status reserve(const Job& job);
  void quantize(const Job& job, int slot, const float* x);
  void multiply(const Job& job, std::span<const Matrix> matrices);

  std::vector<Group> groups_;
  std::vector<int32_t> gathered_;  // row of each gathered row
  std::vector<int64_t>
      places_;  // rows x experts_used: gathered rows of each row, experts ascending; -1: none
  AlignedBytes buffer_;
  int64_t bytes_ = 0;
  float *x_ = nullptr, *gate_ = nullptr, *up_ = nullptr, *y_ = nullptr;
  std::byte* activations_ = nullptr;
};

}  // namespace llada
