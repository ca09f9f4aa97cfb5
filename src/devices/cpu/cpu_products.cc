#include "devices/cpu/cpu_products.h"

#include <algorithm>

namespace llada {

int64_t column_step(const kernels::KernelTable& kernels, const CpuWeight& weight, int64_t pieces) {
  const int64_t tile = kernels.column_tile(weight.stored.type), tiles = (weight.outputs + tile - 1) / tile;
  return tile * ((tiles + pieces - 1) / pieces);
}

void multiply(const kernels::KernelTable& kernels, const CpuProduct& product, int64_t n0, int64_t n1) {
  const CpuWeight& w = *product.weight;
  kernels.matmul({.type = w.stored.type,
                  .n = w.outputs,
                  .k = w.inputs,
                  .weights = w.bytes(),
                  .x = product.x,
                  .activations = product.activations,
                  .rows = product.rows,
                  .n0 = n0,
                  .n1 = n1,
                  .y = product.y,
                  .y_stride = w.outputs});
}

void multiply(const kernels::KernelTable& kernels, ThreadPool& pool, std::span<const CpuProduct> products) {
  struct Task {
    const CpuProduct* product;
    int64_t n0, n1;
  };
  std::vector<Task> tasks;
  for (const CpuProduct& product : products) {
    const int64_t step = column_step(kernels, *product.weight, kTasksPerThread * pool.size());
    for (int64_t n0 = 0; n0 < product.weight->outputs; n0 += step)
      tasks.push_back({&product, n0, std::min(product.weight->outputs, n0 + step)});
  }
  pool.run(static_cast<int64_t>(tasks.size()), [&](int64_t i, int) {
    const Task& t = tasks[static_cast<size_t>(i)];
    multiply(kernels, *t.product, t.n0, t.n1);
  });
}

}  // namespace llada
