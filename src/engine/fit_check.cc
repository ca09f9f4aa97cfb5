#include "engine/fit_check.h"

#include <algorithm>
#include <numeric>

#include "devices/cpu/packed_weights.h"
#include "devices/value_plan.h"
#include "engine/model_runner.h"

namespace llada {

int32_t counted_positions(const ModelGraph& graph) {
  return static_cast<int32_t>(graph.context > 0 ? std::min(graph.context, kCountedPositions) : kCountedPositions);
}

std::vector<WeightId> every_weight(const ModelGraph& graph) {
  std::vector<WeightId> ids(graph.weights.size());
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

MemoryNeed memory_need(const ModelFile& file, const ModelGraph& graph, std::span<const TensorView> weights,
                       const kernels::KernelTable& kernels, std::span<const WeightId> packed) {
  MemoryNeed need;
  for (const WeightId id : packed) {
    const auto i = static_cast<size_t>(id);
    const WeightInfo& w = graph.weights[i];
    if (needs_packing(kernels, w, weights[i]))
      need.packed += kernels.packed_bytes(weights[i].type, w.dims[1], w.dims[0]);
  }
  const int32_t rows = counted_positions(graph);
  need.kv = static_cast<int64_t>(KvStore::needed_bytes(kv_shape(file, graph, rows, false)));
  need.activations = plan_values(graph.forward(plain_shape(rows, rows))).bytes;
  return need;
}

bool keeps_packed(const MemoryNeed& need, const MemoryRoom& room) {
  return room.total < kSmallMachineBytes && need.packed > room.total / kWorthShare;
}

namespace {

double gb(int64_t bytes) { return static_cast<double>(bytes) / 1e9; }

}  // namespace

Status check_fit(const std::string& model, const MemoryNeed& need, const MemoryRoom& room) {
  if (need.total() <= room.available) return {};
  return no_memory(
      "{}: needs {:.2f} GB of memory (packed weights {:.2f}, keys and values {:.2f}, activations {:.2f}), {} has "
      "{:.2f} GB left; {}a smaller type of the model needs less, fit_check=false goes on anyway",
      model, gb(need.total()), gb(need.packed + need.shared), gb(need.kv), gb(need.activations), room.bound,
      gb(room.available), need.packed > 0 ? "`llada pack` keeps the packed weights on disk, " : "");
}

Status check_second_copy(const std::string& model, int64_t bytes, const MemoryRoom& room) {
  if (bytes <= room.available) return {};
  return no_memory(
      "{}: the cpu beside the accelerator needs {:.2f} GB of memory for packed weights of its own, {} has {:.2f} GB "
      "left; `llada pack` keeps them on disk",
      model, gb(bytes), room.bound, gb(room.available));
}

}  // namespace llada
