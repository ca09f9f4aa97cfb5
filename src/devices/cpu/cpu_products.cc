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
  std::vector<Task> tasks, fine;
  for (const CpuProduct& product : products) {
    // Kernels take two column tiles side by side where there are many rows, so single ones are for small matrices.
    const int64_t pair = 2 * kernels.column_tile(product.weight->stored.type);
    int64_t step = column_step(kernels, *product.weight, kTasksPerThread * pool.size());
    if (step < pair && product.weight->outputs >= 4 * pair * pool.size()) step = pair;
    for (int64_t n0 = 0; n0 < product.weight->outputs; n0 += step)
      tasks.push_back({&product, n0, std::min(product.weight->outputs, n0 + step)});
  }
  // A thread's last tasks are what another that is done takes from it: in quarters, so that neither waits long. With
  // few rows a task is one stream of weights, and pieces of it cost more than the wait.
  const auto count = static_cast<int64_t>(tasks.size());
  for (int64_t i = 0; i < count; ++i) {
    const Task& t = tasks[static_cast<size_t>(i)];
    const int64_t end = count * (i * pool.size() / count + 1) / pool.size();  // of the thread's share
    const int64_t tile = kernels.column_tile(t.product->weight->stored.type), tiles = (t.n1 - t.n0 + tile - 1) / tile;
    const bool whole = i + kFineTasks < end || t.product->rows <= kFewRows;
    const int64_t step = whole ? t.n1 - t.n0 : (tiles + 3) / 4 * tile;
    for (int64_t n0 = t.n0; n0 < t.n1; n0 += step) fine.push_back({t.product, n0, std::min(t.n1, n0 + step)});
  }
  pool.run(static_cast<int64_t>(fine.size()), [&](int64_t i, int) {
    const Task& t = fine[static_cast<size_t>(i)];
    multiply(kernels, *t.product, t.n0, t.n1);
  });
}

}  // namespace llada
