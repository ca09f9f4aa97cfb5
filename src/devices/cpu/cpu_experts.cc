#include "devices/cpu/cpu_experts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace llada {
namespace {

constexpr int64_t kTasksPerThread = 8;  // enough that the last tasks of a phase end together
int64_t align(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

void CpuExperts::group_rows(const Job& job) {
  const int experts = job.op->experts, used = job.op->experts_used;
  groups_.clear();
  gathered_.clear();
  places_.assign(static_cast<size_t>(job.rows * used), -1);
  std::vector<int> filled(static_cast<size_t>(job.rows), 0);
  for (int e = 0; e < experts; ++e) {
    const auto begin = static_cast<int64_t>(gathered_.size());
    for (int64_t r = 0; r < job.rows; ++r) {
      if (job.gates[r * experts + e] == 0) continue;
      int& n = filled[static_cast<size_t>(r)];
      LLADA_CHECK(n < used);
      places_[static_cast<size_t>(r * used + n++)] = static_cast<int64_t>(gathered_.size());
      gathered_.push_back(static_cast<int32_t>(r));
    }
    const int64_t count = static_cast<int64_t>(gathered_.size()) - begin;
    if (count > 0) groups_.push_back({e, begin, count, 0});
  }
}

Status CpuExperts::reserve(const Job& job) {
  const CpuWeight& gate = job.weights[static_cast<size_t>(job.op->weight[0])];
  const int64_t width = gate.inputs, inner = gate.outputs, n = static_cast<int64_t>(gathered_.size());
  int64_t activations = 0;
  for (Group& group : groups_) {
    group.activations = activations;
    activations += align(job.kernels->activation_bytes(group.count, std::max(width, inner)));
  }
  const int64_t wide = align(n * width * 4), narrow = align(n * inner * 4);
  const int64_t needed = 2 * wide + 2 * narrow + activations;
  if (needed > bytes_) {
    buffer_.reset();
    bytes_ = 0;
    buffer_ = allocate_aligned(needed);
    if (buffer_ == nullptr) return failed("cpu: {} bytes of scratch memory could not be allocated", needed);
    bytes_ = needed;
  }
  std::byte* at = buffer_.get();
  const auto take = [&](int64_t bytes) { return reinterpret_cast<float*>(std::exchange(at, at + bytes)); };
  x_ = take(wide), y_ = take(wide), gate_ = take(narrow), up_ = take(narrow);
  activations_ = at;
  return {};
}

// The gathered rows of every group as int8, where the weights of `slot` want it.
void CpuExperts::quantize(const Job& job, int slot, const float* x) {
  const auto weight = [&](const Group& g) -> const CpuWeight& {
    return job.weights[static_cast<size_t>(job.op->weight[static_cast<size_t>(slot)] + g.expert)];
  };
  job.pool->run(static_cast<int64_t>(groups_.size()), [&](int64_t i, int) {
    const Group& g = groups_[static_cast<size_t>(i)];
    const CpuWeight& w = weight(g);
    if (!job.kernels->integer_path(w.stored.type)) return;
    job.kernels->quantize_rows(x + g.begin * w.inputs, g.count, w.inputs, 0, g.count,
                               activations_ + g.activations);
  });
}

// Every group's product with each of the matrices.
void CpuExperts::multiply(const Job& job, std::span<const Matrix> matrices) {
  struct Task {
    const Group* group;
    const Matrix* matrix;
    int64_t n0, n1;
  };
  std::vector<Task> tasks;
  const auto products = static_cast<int64_t>(groups_.size() * matrices.size());
  const int64_t pieces = (kTasksPerThread * job.pool->size() + products - 1) / products;
  const auto weight = [&](const Task& t) -> const CpuWeight& {
    return job
        .weights[static_cast<size_t>(job.op->weight[static_cast<size_t>(t.matrix->slot)] + t.group->expert)];
  };
  for (const Group& group : groups_)
    for (const Matrix& matrix : matrices) {
      const CpuWeight& w = weight({&group, &matrix, 0, 0});
      const int64_t tile = job.kernels->column_tile(w.stored.type), tiles = (w.outputs + tile - 1) / tile;
      const int64_t step = tile * ((tiles + pieces - 1) / pieces);
      for (int64_t n0 = 0; n0 < w.outputs; n0 += step)
        tasks.push_back({&group, &matrix, n0, std::min(w.outputs, n0 + step)});
    }
  job.pool->run(static_cast<int64_t>(tasks.size()), [&](int64_t i, int) {
    const Task& t = tasks[static_cast<size_t>(i)];
    const CpuWeight& w = weight(t);
    job.kernels->matmul({.type = w.stored.type,
                         .n = w.outputs,
                         .k = w.inputs,
                         .weights = w.bytes(),
                         .x = t.matrix->x + t.group->begin * w.inputs,
                         .activations = activations_ + t.group->activations,
                         .rows = t.group->count,
                         .n0 = t.n0,
                         .n1 = t.n1,
                         .y = t.matrix->y + t.group->begin * w.outputs,
                         .y_stride = w.outputs});
  });
}

Status CpuExperts::run(const Job& job) {
  group_rows(job);
  LLADA_TRY_STATUS(reserve(job));
  const CpuWeight& gate = job.weights[static_cast<size_t>(job.op->weight[0])];
  const int64_t width = gate.inputs, inner = gate.outputs, used = job.op->experts_used;
  const auto gathered = static_cast<int64_t>(gathered_.size());
  const auto each_gathered = [&](const auto& body) {
    const int64_t step = std::max<int64_t>(1, gathered / (4 * job.pool->size()));
    job.pool->run((gathered + step - 1) / step, [&](int64_t chunk, int) {
      for (int64_t i = chunk * step; i < std::min(gathered, (chunk + 1) * step); ++i) body(i);
    });
  };
  each_gathered([&](int64_t i) {
    std::memcpy(x_ + i * width, job.x + gathered_[static_cast<size_t>(i)] * width,
                static_cast<size_t>(width) * 4);
  });
  quantize(job, 0, x_);
  const std::array<Matrix, 2> gate_up = {{{x_, gate_, 0}, {x_, up_, 1}}};
  multiply(job, gate_up);
  each_gathered(
      [&](int64_t i) { job.kernels->swiglu(gate_ + i * inner, up_ + i * inner, inner, gate_ + i * inner); });
  quantize(job, 2, gate_);
  const std::array<Matrix, 1> down = {{{gate_, y_, 2}}};
  multiply(job, down);
  // A row's experts are added in ascending order, so that its sum does not depend on the other rows.
  job.pool->run(job.rows, [&](int64_t r, int) {
    float* out = job.out + r * width;
    std::fill_n(out, width, 0.0f);
    for (int64_t k = 0; k < used; ++k) {
      const int64_t place = places_[static_cast<size_t>(r * used + k)];
      if (place < 0) break;
      const auto group = std::ranges::upper_bound(groups_, place, {}, &Group::begin) - 1;
      const float gate_value = job.gates[r * job.op->experts + group->expert];
      for (int64_t c = 0; c < width; ++c) out[c] += gate_value * y_[place * width + c];
    }
  });
  return {};
}

}  // namespace llada
