#include "devices/cpu/cpu_weights.h"

#include "tensor/quantize.h"

namespace llada {
namespace {

// Matrices that rows are picked from (embedding tables) must keep the stored layout.
bool is_embedding(const WeightInfo& info) { return info.name == "token_embd.weight"; }

}  // namespace

Result<std::shared_ptr<const CpuWeights>> load_cpu_weights(const kernels::KernelTable& table,
                                                           ThreadPool& pool,
                                                           std::span<const WeightInfo> infos,
                                                           std::span<const TensorView> weights,
                                                           const WeightHooks& hooks) {
  auto loaded = std::make_shared<CpuWeights>();
  loaded->kernels = &table;
  loaded->list.resize(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    CpuWeight& w = loaded->list[i];
    if (hooks.wanted) hooks.wanted(i);
    w.stored = weights[i];
    w.inputs = infos[i].dims[0];
    w.outputs = infos[i].dims[1];
    if (w.outputs == 1) {
      w.vector.resize(static_cast<size_t>(w.inputs));
      dequantize_row(w.stored.type, w.stored.data, w.vector.data(), w.inputs);
      continue;
    }
    if (is_embedding(infos[i])) continue;
    const int64_t bytes = table.packed_bytes(w.stored.type, w.outputs, w.inputs);
    if (bytes == 0) continue;
    w.packed = allocate_aligned(bytes);
    if (w.packed == nullptr)
      return failed("{}: {} bytes for its packed copy could not be allocated", infos[i].name, bytes);
    const int64_t tile = table.column_tile(w.stored.type);
    const int64_t step = tile * std::max<int64_t>(1, 256 / tile);
    pool.run((w.outputs + step - 1) / step, [&](int64_t chunk, int) {
      table.pack(w.stored, chunk * step, std::min(w.outputs, (chunk + 1) * step), w.packed.get());
    });
    loaded->packed_bytes += bytes;
    if (hooks.packed) hooks.packed(i);
  }
  return loaded;
}

}  // namespace llada
