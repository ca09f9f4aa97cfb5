#include "engine/fit_check.h"

#include <algorithm>

#include "devices/cpu/packed_weights.h"
#include "devices/value_plan.h"
#include "memory/kv_store.h"

namespace llada {

MemoryNeed memory_need(const ModelGraph& graph, std::span<const TensorView> weights,
                       const kernels::KernelTable& kernels) {
  MemoryNeed need;
  bool quantized = false;  // then keys and values have 16 bits (kv_type() of model_runner.h)
  for (size_t i = 0; i < weights.size(); ++i) {
    const WeightInfo& w = graph.weights[i];
    quantized = quantized || traits(weights[i].type).quantized;
    if (needs_packing(kernels, w, weights[i]))
      need.packed += kernels.packed_bytes(weights[i].type, w.dims[1], w.dims[0]);
  }
  const int64_t positions = graph.context > 0 ? std::min(graph.context, kCountedPositions) : kCountedPositions;
  need.kv = static_cast<int64_t>(KvStore::needed_bytes({.layers = graph.layers,
                                                        .sequences = 1,
                                                        .kv_heads = graph.kv_heads,
                                                        .head_dim = graph.head_dim,
                                                        .positions = positions,
                                                        .type = quantized ? DType::F16 : DType::F32,
                                                        .by_layer = graph.kv_by_layer}));
  const auto rows = static_cast<int32_t>(positions);
  need.activations = plan_values(graph.forward(plain_shape(rows, rows))).bytes;
  return need;
}

bool keeps_packed(const MemoryNeed& need, const MemoryRoom& room) {
  return room.total < kSmallMachineBytes && need.packed > room.total / kWorthShare;
}

Status check_fit(const std::string& model, const MemoryNeed& need, const MemoryRoom& room) {
  if (need.total() <= room.available) return {};
  const auto gb = [](int64_t bytes) { return static_cast<double>(bytes) / 1e9; };
  return no_memory(
      "{}: needs {:.2f} GB of memory (packed weights {:.2f}, keys and values {:.2f}, activations {:.2f}), {} has "
      "{:.2f} GB left; {}a smaller type of the model needs less, --no-fit-check (fit_check=false of the library) goes "
      "on "
      "anyway",
      model, gb(need.total()), gb(need.packed), gb(need.kv), gb(need.activations), room.bound, gb(room.available),
      need.packed > 0 ? "`llada pack` keeps the packed weights on disk, " : "");
}

}  // namespace llada
