#include "devices/cpu/cpu_weights.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "tensor/quantize.h"

namespace llada {

Result<std::shared_ptr<const CpuWeights>> load_cpu_weights(const kernels::KernelTable& table,
                                                           ThreadPool& pool,
                                                           std::span<const WeightInfo> infos,
                                                           std::span<const TensorView> weights,
                                                           const WeightHooks& hooks) {
  constexpr int64_t kAlign = 4096;  // of each matrix in the slab
  auto loaded = std::make_shared<CpuWeights>();
  loaded->kernels = &table;
  loaded->list.resize(weights.size());
  std::vector<int64_t> offsets(weights.size(), -1);
  for (size_t i = 0; i < weights.size(); ++i) {
    CpuWeight& w = loaded->list[i];
    w.stored = weights[i];
    w.inputs = infos[i].dims[0];
    w.outputs = infos[i].dims[1];
    const int64_t bytes = table.packed_bytes(w.stored.type, w.outputs, w.inputs);
    if (bytes == 0) continue;
    w.must_be_packed = true;
    if (!infos[i].multiplied || is_vector(infos[i])) continue;
    offsets[i] = loaded->packed_bytes;
    loaded->packed_bytes += (bytes + kAlign - 1) / kAlign * kAlign;
  }
  loaded->slab = allocate_aligned(loaded->packed_bytes);
  if (loaded->slab == nullptr)
    return failed("{} bytes for the packed weights could not be allocated", loaded->packed_bytes);

  // Largest first: a matrix's stored and packed forms are in memory together, which counts least while little
  // else is there.
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return weights[i].bytes(); });
  for (const size_t i : order) {
    CpuWeight& w = loaded->list[i];
    if (hooks.wanted) hooks.wanted(i);
    if (w.outputs == 1) {
      w.vector.resize(static_cast<size_t>(w.inputs));
      dequantize_row(w.stored.type, w.stored.data, w.vector.data(), w.inputs);
    }
    if (offsets[i] < 0) continue;
    std::byte* const packed = loaded->slab.get() + offsets[i];
    const int64_t tile = table.column_tile(w.stored.type);
    const int64_t step = tile * std::max<int64_t>(1, 256 / tile);
    pool.run((w.outputs + step - 1) / step, [&](int64_t chunk, int) {
      table.pack(w.stored, chunk * step, std::min(w.outputs, (chunk + 1) * step), packed);
    });
    w.packed = packed;
    if (hooks.packed && !infos[i].picked_from) hooks.packed(i);
  }
  return loaded;
}

Status check_uses(const CpuWeights& weights, const Program& program) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (op.kind != OpKind::matmul && op.kind != OpKind::experts && op.kind != OpKind::head) continue;
    bool ready = true;
    for_each_weight(
        op, [&](WeightId id) { ready = ready && weights.list[static_cast<size_t>(id)].can_multiply(); });
    if (!ready)
      return failed("cpu: op {} ({}) multiplies by a weight that was loaded to pick rows from", i,
                    name(op.kind));
  }
  return {};
}

}  // namespace llada
