#include "devices/cpu/cpu_products.h"

#include <algorithm>

namespace llada {

int64_t column_step(const kernels::KernelTable& kernels, const CpuWeight& weight, int64_t pieces) {
  const int64_t tile = kernels.column_tile(weight.stored.type), tiles = (weight.outputs + tile - 1) / tile;
  return tile * ((tiles + pieces - 1) / pieces);
}

kernels::MatmulArgs CpuProduct::args(int64_t n0, int64_t n1) const {
  const CpuWeight& w = *weight;
  return {.type = w.stored.type,
          .n = w.outputs,
          .k = w.inputs,
          .weights = w.bytes(),
          .x = x,
          .activations = activations,
          .rows = rows,
          .n0 = n0,
          .n1 = n1,
          .y = y,
          .y_stride = w.outputs};
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
  // A thread that is done takes another's last tasks: in quarters, so that neither waits long. With few rows a task is
  // one stream of weights, and pieces of it cost more than the wait.
  const auto count = static_cast<int64_t>(tasks.size());
  int64_t end = 0;  // of the thread's share
  for (int64_t i = 0, thread = 0; i < count; ++i) {
    const Task& t = tasks[static_cast<size_t>(i)];
    while (end <= i) end = pool.share_end(count, static_cast<int>(thread++));
    const int64_t tile = kernels.column_tile(t.product->weight->stored.type), tiles = (t.n1 - t.n0 + tile - 1) / tile;
    const bool whole = i + kFineTasks < end || t.product->rows <= kFewRows;
    const int64_t step = whole ? t.n1 - t.n0 : (tiles + 3) / 4 * tile;
    for (int64_t n0 = t.n0; n0 < t.n1; n0 += step) fine.push_back({t.product, n0, std::min(t.n1, n0 + step)});
  }
  pool.run(static_cast<int64_t>(fine.size()), [&](int64_t i, int) {
    const Task& t = fine[static_cast<size_t>(i)];
    kernels.matmul(t.product->args(t.n0, t.n1));
  });
}

}  // namespace llada
