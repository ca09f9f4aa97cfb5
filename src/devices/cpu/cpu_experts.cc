#include "devices/cpu/cpu_experts.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "base/check.h"
#include "devices/cpu/cpu_products.h"

namespace llada {
namespace {

// Rows whose arithmetic takes as long as reading the weights, about; fewer cost as much as these.
constexpr int64_t kLeastCost = 8;
int64_t align(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Almost always true at once. Spins first, since the other thread is a few microseconds from done. Then lets others
// run, since one of them may be the thread that it waits for.
void wait_for(const std::atomic<int64_t>& value, int64_t wanted) {
  constexpr int kSpins = 2000;
  for (int spin = 0; value.load(std::memory_order_acquire) != wanted; ++spin)
    if (spin > kSpins) std::this_thread::yield();
}

}  // namespace

// One thread's work while the others wait, so the gates, mostly zeros, are read once and in order.
void CpuExperts::group_rows(const Job& job) {
  constexpr int kStep = 16;  // gates that are looked at together
  const int experts = job.op->experts, used = job.op->experts_used;
  groups_.clear();
  places_.assign(static_cast<size_t>(job.rows * used), -1);
  routed_.assign(places_.size(), -1);
  ends_.assign(static_cast<size_t>(experts), 0);
  for (int64_t r = 0; r < job.rows; ++r) {
    const float* gates = job.gates + r * experts;
    int n = 0;
    for (int e0 = 0; e0 < experts; e0 += kStep) {
      const int e1 = std::min(experts, e0 + kStep);
      bool any = false;
      for (int e = e0; e < e1; ++e) any |= gates[e] != 0;
      for (int e = e0; any && e < e1; ++e) {
        if (gates[e] == 0) continue;
        LLADA_CHECK(n < used);
        routed_[static_cast<size_t>(r * used + n++)] = e;
        ++ends_[static_cast<size_t>(e)];
      }
    }
  }
  int64_t begin = 0;
  for (int e = 0; e < experts; ++e) {
    const int64_t count = std::exchange(ends_[static_cast<size_t>(e)], begin);
    if (count > 0) groups_.push_back({e, begin, count, 0});
    begin += count;
  }
  touched_ = static_cast<int64_t>(groups_.size());
  gathered_.resize(static_cast<size_t>(begin));
  for (size_t i = 0; i < routed_.size(); ++i) {
    if (routed_[i] < 0) continue;
    places_[i] = ends_[static_cast<size_t>(routed_[i])]++;
    gathered_[static_cast<size_t>(places_[i])] = static_cast<int32_t>(static_cast<int64_t>(i) / used);
  }
  if (job.shared == nullptr) return;
  LLADA_CHECK(job.plan == nullptr);
  groups_.push_back({kShared, begin, job.rows, 0});
  for (int64_t r = 0; r < job.rows; ++r) gathered_.push_back(static_cast<int32_t>(r));
}

bool CpuExperts::fits_beside(std::span<const CpuWeight> weights, const Op& op, const std::array<WeightId, 3>& shared) {
  for (size_t slot = 0; slot < shared.size(); ++slot) {
    const CpuWeight &expert = weights[static_cast<size_t>(op.weight[slot])],
                    &other = weights[static_cast<size_t>(shared[slot])];
    if (other.inputs != expert.inputs || other.outputs != expert.outputs || other.stored.type != expert.stored.type)
      return false;
  }
  return true;
}

std::span<const float> CpuExperts::hidden(int expert) const {
  const auto group = std::ranges::find(groups_, expert, &Group::expert);
  if (group == groups_.end()) return {};
  return {gate_ + group->begin * inner_, static_cast<size_t>(group->count * inner_)};
}

Status CpuExperts::reserve(const Job& job) {
  const CpuWeight& gate = job.weights[static_cast<size_t>(job.op->weight[0])];
  const int64_t width = gate.inputs, inner = gate.outputs, n = static_cast<int64_t>(gathered_.size());
  int64_t activations = 0;
  for (Group& group : groups_) {
    group.activations = activations;
    activations += align(job.kernels->activation_bytes(group.count, std::max(width, inner)));
  }
  beside_width_ = width, inner_ = inner;
  const int64_t wide = align(n * width * 4), narrow = align(n * inner * 4);
  const int64_t gathered = rounds(job) ? 0 : wide;
  const bool sliced = job.plan != nullptr && job.plan->slices > 1;
  const int64_t needed = gathered + (sliced ? 2 : 1) * wide + 2 * narrow + activations;
  LLADA_TRY_STATUS(buffer_.reserve(needed));
  std::byte* at = buffer_.data();
  const auto take = [&](int64_t bytes) { return reinterpret_cast<float*>(std::exchange(at, at + bytes)); };
  x_ = take(gathered), y_ = take(wide), gate_ = take(narrow), up_ = take(narrow);
  if (sliced) more_ = take(wide);
  activations_ = at;
  if (progress_size_ < groups_.size()) {
    progress_size_ = groups_.size();
    progress_ = std::make_unique<Progress[]>(progress_size_);
  }
  return {};
}

void CpuExperts::mix(std::vector<Task>& tasks) const {
  const std::vector<Task> sorted = std::exchange(tasks, {});
  tasks.reserve(sorted.size());
  const auto rows = [&](const Task& t) { return groups_[static_cast<size_t>(t.at)].count; };
  int64_t all = 0;
  for (const Task& t : sorted) all += rows(t);
  size_t front = 0, back = sorted.size();
  for (int64_t taken = 0; front < back;) {
    const bool heavy = taken * static_cast<int64_t>(sorted.size()) <= all * static_cast<int64_t>(tasks.size());
    tasks.push_back(heavy ? sorted[front++] : sorted[--back]);
    taken += rows(tasks.back());
  }
}

void CpuExperts::list_tasks(const Job& job, const std::vector<int64_t>& order, bool sums) {
  tasks_.clear();
  cuts_.assign(groups_.size(), 0);
  const auto count = [&](int64_t g) { return groups_[static_cast<size_t>(g)].count; };
  const auto cost = [&](int64_t g) { return std::max(count(g), kLeastCost); };
  int64_t all = 0;
  for (const int64_t g : order) all += cost(g);
  const auto products = [&](Stage stage, int slot) {
    std::vector<Task> tasks;
    tasks.reserve(2 * order.size());
    for (const int64_t g : order) {
      const CpuWeight& w = weight(job, slot, groups_[static_cast<size_t>(g)]);
      const int64_t pieces = std::max(cost(g) * kTasksPerThread * job.pool->size() / all, int64_t{1});
      const int64_t step = column_step(*job.kernels, w, pieces);
      for (int64_t n0 = 0; n0 < w.outputs; n0 += step) {
        tasks.push_back({stage, g, n0, std::min(w.outputs, n0 + step)});
        cuts_[static_cast<size_t>(g)] += stage == Stage::gate_up;
      }
    }
    if (job.plan == nullptr) mix(tasks);
    return tasks;
  };
  // An expert's rows are gathered some products ahead of its own: all at once would leave the memory idle meanwhile.
  const std::vector<Task> gate_up = products(Stage::gate_up, 0), down = products(Stage::down, 2);
  std::vector<bool> gathered(groups_.size(), false);
  const size_t ahead = static_cast<size_t>(2 * job.pool->size());
  for (size_t i = 0; i < gate_up.size() + ahead; ++i) {
    if (i < gate_up.size() && !gathered[static_cast<size_t>(gate_up[i].at)]) {
      gathered[static_cast<size_t>(gate_up[i].at)] = true;
      tasks_.push_back({Stage::gather, gate_up[i].at, 0, 0});
    }
    if (i >= ahead) tasks_.push_back(gate_up[i - ahead]);
  }
  tasks_.insert(tasks_.end(), down.begin(), down.end());
  products_left_.store(static_cast<int64_t>(down.size()), std::memory_order_relaxed);
  const int64_t step = std::max<int64_t>(1, job.rows / (4 * job.pool->size()));
  for (int64_t r = 0; sums && r < job.rows; r += step)
    tasks_.push_back({Stage::sum, r, 0, std::min(job.rows, r + step)});
  for (size_t g = 0; g < groups_.size(); ++g) {
    progress_[g].gathered.store(0, std::memory_order_relaxed);
    progress_[g].products.store(0, std::memory_order_relaxed);
    progress_[g].hidden.store(0, std::memory_order_relaxed);
  }
  next_.store(0, std::memory_order_relaxed);
}

const CpuWeight& CpuExperts::weight(const Job& job, int slot, const Group& group) const {
  const auto at = static_cast<size_t>(slot);
  return job
      .weights[static_cast<size_t>(group.expert == kShared ? (*job.shared)[at] : job.op->weight[at] + group.expert)];
}

void CpuExperts::fetch_head(const Job& job, int slot, const Task& task) const {
  constexpr int64_t kHead = 8192, kLine = 64;  // bytes: as far as the kernels look ahead
  const CpuWeight& w = weight(job, slot, groups_[static_cast<size_t>(task.at)]);
  const std::byte* at = w.bytes() + (w.packed != nullptr ? job.kernels->packed_bytes(w.stored.type, task.n0, w.inputs)
                                                         : task.n0 * row_bytes(w.stored.type, w.inputs));
  for (int64_t i = 0; i < kHead; i += kLine) __builtin_prefetch(at + i, 0, 0);
}

void CpuExperts::fetch_next(const Job& job) const {
  auto next = static_cast<size_t>(next_.load(std::memory_order_relaxed));
  if (next < tasks_.size() && tasks_[next].stage == Stage::gather) ++next;
  if (next >= tasks_.size()) return;
  const Task& task = tasks_[next];
  if (task.stage == Stage::gate_up) fetch_head(job, 0, task);
  if (task.stage == Stage::down) fetch_head(job, 2, task);
}

bool CpuExperts::rounds(const Job& job) const {
  return job.kernels->integer_path(job.weights[static_cast<size_t>(job.op->weight[0])].stored.type);
}

void CpuExperts::gather(const Job& job, const Group& group) const {
  const CpuWeight &gate = weight(job, 0, group), &up = weight(job, 1, group);
  const int64_t width = gate.inputs;
  const int32_t* rows = gathered_.data() + group.begin;
  if (rounds(job)) {
    if (group.expert != kShared)  // that has all rows as they are
      job.kernels->pick_rows({job.x, rounded_.data(), job.rows, width, rows, group.count,
                              kernels::type_bit(gate.stored.type) | kernels::type_bit(up.stored.type),
                              activations_ + group.activations});
    return;
  }
  for (int64_t i = 0; i < group.count; ++i)
    std::memcpy(x_ + (group.begin + i) * width, job.x + rows[i] * width, static_cast<size_t>(width) * 4);
}

void CpuExperts::multiply(const Job& job, int slot, const Task& task, const float* x, float* y) const {
  const Group& group = groups_[static_cast<size_t>(task.at)];
  const CpuWeight& w = weight(job, slot, group);
  const bool all_rows = group.expert == kShared && slot != 2 && rounds(job);
  const std::byte* activations = all_rows ? rounded_.data() : activations_ + group.activations;
  const CpuProduct product{&w, x + group.begin * w.inputs, activations, group.count, y + group.begin * w.outputs};
  job.kernels->matmul(product.args(task.n0, task.n1));
}

// A row's experts are added in ascending order, so that its sum does not depend on the other rows.
void CpuExperts::add_up(const Job& job, int64_t row) const {
  const int64_t width = job.weights[static_cast<size_t>(job.op->weight[0])].inputs, used = job.op->experts_used;
  constexpr int64_t kColumns = 64;  // sums that stay in registers while the experts pass by
  int64_t end = row * used;
  while (end < (row + 1) * used && places_[static_cast<size_t>(end)] >= 0) ++end;
  for (int64_t c0 = 0; c0 < width; c0 += kColumns) {
    const int64_t n = std::min(kColumns, width - c0);
    float sums[kColumns] = {};
    for (int64_t k = row * used; k < end; ++k) {
      const float gate_value = job.gates[row * job.op->experts + routed_[static_cast<size_t>(k)]];
      const float* y = y_ + places_[static_cast<size_t>(k)] * width + c0;
      if (n == kColumns)
        for (int64_t c = 0; c < kColumns; ++c) sums[c] += gate_value * y[c];
      else
        for (int64_t c = 0; c < n; ++c) sums[c] += gate_value * y[c];
    }
    std::copy_n(sums, n, job.out + row * width + c0);
  }
}

void CpuExperts::perform(const Job& job, const Task& task) {
  if (task.stage == Stage::sum) {
    wait_for(products_left_, 0);
    for (int64_t r = task.at; r < task.n1; ++r) add_up(job, r);
    return;
  }
  const Group& group = groups_[static_cast<size_t>(task.at)];
  Progress& progress = progress_[static_cast<size_t>(task.at)];
  const CpuWeight& gate = weight(job, 0, group);
  const int64_t width = gate.inputs, inner = gate.outputs;
  switch (task.stage) {
    case Stage::gather:
      gather(job, group);
      progress.gathered.store(1, std::memory_order_release);
      return;
    case Stage::gate_up:
      wait_for(progress.gathered, 1);
      fetch_head(job, 1, task);
      multiply(job, 0, task, x_, gate_);
      fetch_next(job);
      multiply(job, 1, task, x_, up_);
      // Who is last makes the hidden rows. acq_rel: it must see what all the others wrote.
      if (progress.products.fetch_add(1, std::memory_order_acq_rel) + 1 < cuts_[static_cast<size_t>(task.at)]) return;
      for (int64_t i = group.begin; i < group.begin + group.count; ++i)
        (job.op->activation == Activation::silu ? job.kernels->swiglu : job.kernels->geglu)(
            gate_ + i * inner, up_ + i * inner, inner, gate_ + i * inner);
      if (!slices_.empty()) keep_slices(job, task.at);
      if (const CpuWeight& down = weight(job, 2, group); job.kernels->integer_path(down.stored.type))
        job.kernels->quantize_rows(gate_ + group.begin * inner, group.count, inner, 0, group.count,
                                   kernels::type_bit(down.stored.type), activations_ + group.activations);
      progress.hidden.store(1, std::memory_order_release);
      return;
    case Stage::down:
      wait_for(progress.hidden, 1);
      fetch_next(job);
      if (slices_before_.empty() || slices_before_[static_cast<size_t>(task.at)] == 0) {
        multiply(job, 2, task, gate_, y_);
      } else {
        multiply(job, 2, task, gate_, more_);
        for (int64_t i = group.begin; i < group.begin + group.count; ++i)
          for (int64_t c = task.n0; c < task.n1; ++c) y_[i * width + c] += more_[i * width + c];
      }
      products_left_.fetch_sub(1, std::memory_order_acq_rel);
      return;
    case Stage::sum:
      return;
  }
}

void CpuExperts::run_tasks(const Job& job) {
  // The pool hands out indices from several ends; the order that the waits rest on is next_'s.
  job.pool->run(static_cast<int64_t>(tasks_.size()), [&](int64_t, int) {
    perform(job, tasks_[static_cast<size_t>(next_.fetch_add(1, std::memory_order_relaxed))]);
  });
}

void CpuExperts::run_host_part(const Job& job, const std::vector<int64_t>& order) {
  list_tasks(job, order, true);
  run_tasks(job);
}

// Hidden values of slices that are not in the part under way become zero, and so add nothing.
void CpuExperts::keep_slices(const Job& job, int64_t at) const {
  const Group& group = groups_[static_cast<size_t>(at)];
  const int64_t inner = weight(job, 0, group).outputs, one = inner / job.plan->slices;
  for (int32_t s = 0; s < job.plan->slices; ++s) {
    if ((slices_[static_cast<size_t>(at)] >> s & 1) != 0) continue;
    for (int64_t i = group.begin; i < group.begin + group.count; ++i)
      std::fill_n(gate_ + i * inner + s * one, one, 0.0f);
  }
}

// The groups of one unit, in the order of the plan; fills slices_.
Result<std::vector<int64_t>> CpuExperts::part_of(const Job& job, bool on_device) {
  const int32_t slices = job.plan->slices;
  std::vector<int64_t> order;
  if (slices > 1) slices_.assign(groups_.size(), 0);
  for (const ExpertWork& work : job.plan->work) {
    if (work.on_device != on_device) continue;
    const auto group = std::ranges::find(groups_, work.expert / slices, &Group::expert);
    if (group == groups_.end() || group->count != work.rows)
      return failed("cpu: a plan gives expert {} of layer {} {} rows, the router {}", work.expert / slices,
                    job.plan->layer, work.rows, group == groups_.end() ? 0 : group->count);
    const int64_t at = group - groups_.begin();
    if (slices > 1) {
      uint64_t& mine = slices_[static_cast<size_t>(at)];
      const uint64_t slice = uint64_t{1} << work.expert % slices;
      const uint64_t before = slices_before_.empty() ? 0 : slices_before_[static_cast<size_t>(at)];
      if (((mine | before) & slice) != 0)
        return failed("cpu: a plan of layer {} gives slice {} twice", job.plan->layer, work.expert);
      const bool known = mine != 0;
      mine |= slice;
      if (known) continue;
    }
    order.push_back(at);
  }
  return order;
}

Status CpuExperts::prepare(const Job& job) {
  constexpr int64_t kTile = 8;  // rows whose quants share cache lines
  const int64_t tiles = rounds(job) ? (job.rows + kTile - 1) / kTile : 0;
  const CpuWeight &gate = weight(job, 0, Group{}), &up = weight(job, 1, Group{});  // all experts' have the same types
  const int64_t width = gate.inputs;
  const kernels::TypeSet readers = kernels::type_bit(gate.stored.type) | kernels::type_bit(up.stored.type);
  if (tiles > 0) LLADA_TRY_STATUS(rounded_.reserve(job.kernels->activation_bytes(job.rows, width)));
  Status status;
  std::atomic<bool> planned{false};
  std::atomic<int64_t> left{tiles};
  job.pool->run(1 + tiles, [&](int64_t i, int) {
    if (i == 0) {
      status = plan_run(job);
      planned.store(true, std::memory_order_relaxed);
      return;
    }
    job.kernels->quantize_rows(job.x, job.rows, width, (i - 1) * kTile, std::min(job.rows, i * kTile), readers,
                               rounded_.data());
    if (left.fetch_sub(1, std::memory_order_relaxed) == 1 && job.shared != nullptr) fetch_shared(job, planned);
  });
  return status;
}

// Brings the shared network's first weights near until there is something to do: they are sure to be read soon, and
// listing the tasks takes one thread tens of microseconds.
void CpuExperts::fetch_shared(const Job& job, const std::atomic<bool>& stop) const {
  constexpr int64_t kPiece = 4096, kLine = 64,
                    kMost = 512 << 10;  // bytes that stay in a cache of 1 MiB beside the rows
  const CpuWeight& gate = job.weights[static_cast<size_t>((*job.shared)[0])];
  if (gate.packed == nullptr) return;
  const int64_t bytes = std::min(kMost, job.kernels->packed_bytes(gate.stored.type, gate.outputs, gate.inputs));
  for (int64_t i = 0; i < bytes && !stop.load(std::memory_order_relaxed); i += kPiece)
    for (int64_t at = i; at < std::min(bytes, i + kPiece); at += kLine) __builtin_prefetch(gate.bytes() + at, 0, 2);
}

Status CpuExperts::plan_run(const Job& job) {
  group_rows(job);
  LLADA_TRY_STATUS(reserve(job));
  if (job.plan != nullptr) return {};
  std::vector<int64_t> order(groups_.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](int64_t g) { return groups_[static_cast<size_t>(g)].count; });
  list_tasks(job, order, true);
  return {};
}

Status CpuExperts::run(const Job& job) {
  LLADA_TRY_STATUS(prepare(job));
  if (job.plan == nullptr) {
    run_tasks(job);
    return {};
  }
  slices_.clear(), slices_before_.clear();
  const Status status = job.plan->slices > 1 ? run_slices(job) : run_parts(job);
  slices_.clear(), slices_before_.clear();
  return status;
}

Status CpuExperts::run_parts(const Job& job) {
  LLADA_TRY(const auto device, part_of(job, true));
  LLADA_TRY(const auto host, part_of(job, false));
  std::vector<int64_t> both = device;
  both.insert(both.end(), host.begin(), host.end());
  std::ranges::sort(both);
  for (size_t i = 0; i < std::max(both.size(), groups_.size()); ++i)
    if (both.size() != groups_.size() || both[i] != static_cast<int64_t>(i))
      return failed("cpu: a plan of layer {} gives {} experts a unit, rows went to {}", job.plan->layer, both.size(),
                    groups_.size());
  list_tasks(job, device, false);
  run_tasks(job);
  run_host_part(job, host);
  return {};
}

// Where experts are sliced. A divided expert's hidden values are computed in both parts: here that costs time, and
// keeps the kernels free of partial columns.
Status CpuExperts::run_slices(const Job& job) {
  const int32_t slices = job.plan->slices;
  const CpuWeight& gate = job.weights[static_cast<size_t>(job.op->weight[0])];
  const int64_t group = slice_group(job.kernels->integer_path(weight(job, 2, Group{}).stored.type));
  if (slices > 64 || gate.outputs % (slices * group) != 0)
    return failed("cpu: a plan of layer {} has {} slices, needed a divisor of {}", job.plan->layer, slices,
                  gate.outputs / group);
  LLADA_TRY(const auto device, part_of(job, true));
  const std::vector<uint64_t> first = slices_;
  slices_before_ = first;
  LLADA_TRY(const auto host, part_of(job, false));
  const uint64_t all = slices == 64 ? ~uint64_t{0} : (uint64_t{1} << slices) - 1;
  for (size_t g = 0; g < groups_.size(); ++g)
    if ((first[g] | slices_[g]) != all)
      return failed("cpu: a plan of layer {} leaves out slices of expert {}", job.plan->layer, groups_[g].expert);
  std::vector<uint64_t> second = std::exchange(slices_, first);
  slices_before_.clear();
  list_tasks(job, device, false);
  run_tasks(job);
  slices_ = std::move(second), slices_before_ = first;
  run_host_part(job, host);
  return {};
}

}  // namespace llada
