// Matrix products cut into tasks by columns.
#pragma once
#include <span>

#include "devices/cpu/cpu_weights.h"

namespace llada {

struct CpuProduct {
  const CpuWeight* weight;
  const float* x;                // rows x inputs
  const std::byte* activations;  // the same quantized, where the type multiplies integers
  int64_t rows;
  float* y;  // rows x outputs

  kernels::MatmulArgs args(int64_t n0, int64_t n1) const;  // of columns [n0, n1)
};

// Tasks per thread, enough that a loop's last tasks end together, and how many of them are cut finer where there are
// more than a few rows.
inline constexpr int64_t kTasksPerThread = 8, kFineTasks = 2, kFewRows = 16;

// Columns per task that cut a product into `pieces`, or fewer: whole column tiles.
int64_t column_step(const kernels::KernelTable& kernels, const CpuWeight& weight, int64_t pieces);

// All of several products in one loop, so that a small matrix does not leave a thread idle.
void multiply(const kernels::KernelTable& kernels, ThreadPool& pool, std::span<const CpuProduct> products);

}  // namespace llada
