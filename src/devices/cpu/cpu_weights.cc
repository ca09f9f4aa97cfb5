#include "devices/cpu/cpu_weights.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "tensor/quantize.h"

namespace llada {

CpuWeights::CpuWeights(const kernels::KernelTable& table, std::span<const WeightInfo> infos,
                       std::span<const TensorView> weights, WeightHooks hooks,
                       std::shared_ptr<const PackedWeights> packed)
    : kernels(&table),
      list(weights.size()),
      picked_from_(weights.size()),
      hooks_(std::move(hooks)),
      packed_(std::move(packed)),
      ready_(std::make_unique<std::atomic<bool>[]>(weights.size())),
      missing_(weights.size()) {
  for (size_t i = 0; i < list.size(); ++i) {
    CpuWeight& w = list[i];
    w.stored = weights[i];
    w.inputs = infos[i].dims[0];
    w.outputs = infos[i].dims[1];
    w.must_be_packed = table.packed_bytes(w.stored.type, w.outputs, w.inputs) > 0;
    w.multiplied = infos[i].multiplied && !is_vector(infos[i]);
    picked_from_[i] = infos[i].picked_from;
  }
}

Status CpuWeights::load(ThreadPool& pool, std::span<const WeightId> ids) {
  constexpr int64_t kAlign = 4096;  // of each matrix in the slab
  const auto is_missing = [&](WeightId id) { return !ready_[static_cast<size_t>(id)].load(std::memory_order_acquire); };
  if (std::ranges::none_of(ids, is_missing)) return {};
  const std::lock_guard lock(mutex_);
  std::vector<size_t> order;
  for (const WeightId id : ids)
    if (is_missing(id)) order.push_back(static_cast<size_t>(id));
  std::ranges::sort(order);  // in the slab they lie in the list's order
  order.erase(std::ranges::unique(order).begin(), order.end());
  std::vector<int64_t> offsets(list.size(), -1);
  int64_t total = 0;
  for (const size_t i : order) {
    if (!list[i].must_be_packed || !list[i].multiplied) continue;
    if (packed_ != nullptr) list[i].packed = packed_->find(i);
    if (list[i].packed != nullptr) continue;
    const int64_t bytes = kernels->packed_bytes(list[i].stored.type, list[i].outputs, list[i].inputs);
    offsets[i] = total;
    total += (bytes + kAlign - 1) / kAlign * kAlign;
  }
  if (total > 0 && hooks_.admit) LLADA_TRY_STATUS(hooks_.admit(total));
  AlignedBytes slab = total > 0 ? allocate_aligned(total) : nullptr;
  if (total > 0 && slab == nullptr) return failed("{} bytes for the packed weights could not be allocated", total);

  // Largest first: a matrix's stored and packed forms are in memory together, which counts least while little
  // else is there.
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return list[i].stored.bytes(); });
  if (hooks_.planned) {
    std::vector<size_t> read = order;  // rows are picked later, and weights used in place are read by their users
    std::erase_if(read, [&](size_t i) { return offsets[i] < 0 && list[i].outputs != 1; });
    hooks_.planned(read);
  }
  for (const size_t i : order) {
    CpuWeight& w = list[i];
    if (hooks_.wanted && (w.packed == nullptr || picked_from_[i])) hooks_.wanted(i);
    if (w.outputs == 1) {
      w.vector.resize(static_cast<size_t>(w.inputs));
      dequantize_row(w.stored.type, w.stored.data, w.vector.data(), w.inputs);
    }
    if (offsets[i] >= 0) {
      std::byte* const packed = slab.get() + offsets[i];
      pack_matrix(*kernels, pool, w.stored, packed);
      w.packed = packed;
      if (hooks_.packed && !picked_from_[i]) hooks_.packed(i);
    }
    ready_[i].store(true, std::memory_order_release);
  }
  slabs_.push_back(std::move(slab));
  packed_bytes_.fetch_add(total, std::memory_order_relaxed);
  if (missing_.fetch_sub(order.size(), std::memory_order_release) == order.size()) hooks_ = {};
  return {};
}

std::vector<WeightId> CpuWeights::every_id() const {
  std::vector<WeightId> all(list.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Status check_uses(const CpuWeights& weights, const Program& program) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (!rule_of(op.kind).multiplies()) continue;
    bool ready = true;
    for_each_weight(op, [&](WeightId id) { ready = ready && weights.list[static_cast<size_t>(id)].can_multiply(); });
    if (!ready)
      return failed("cpu: op {} ({}) multiplies by a weight that was loaded to pick rows from", i, name(op.kind));
  }
  return {};
}

}  // namespace llada
