#include "engine/open_device.h"

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "devices/cpu/cpu_device.h"
#include "devices/cpu/packed_weights.h"
#include "devices/hexagon/reserve.h"
#include "engine/pack_cache.h"
#include "tensor/view.h"

namespace llada {
namespace {

Program one_row(const ModelGraph& graph) { return graph.forward(plain_shape(1, 1)); }

Result<std::unique_ptr<Device>> open_hexagon(const DeviceSpec& spec, const ModelGraph& graph,
                                             std::span<const TensorView> weights, std::unique_ptr<Device> host,
                                             const WeightHooks& hooks) {
  const int64_t positions =
      spec.positions.value_or(graph.context > 0 ? std::min(graph.context, kHexagonRows) : kHexagonRows);
  const auto rows = static_cast<int32_t>(std::min(positions, kHexagonRows));
  HexagonOptions dsp = spec.dsp;
  dsp.head_on_dsp = spec.head_on_accelerator.value_or(true);
  const Program full = graph.forward(plain_shape(rows, rows));
  dsp.reserve_bytes = hexagon_reserve(full, graph.weights, positions).total();
  LLADA_TRY(auto device, make_hexagon_device(dsp, graph.weights, weights, std::move(host), hooks));
  if (spec.window.percent > 0) {
    const auto slabs = group_slabs(weight_uses(one_row(graph), *device), SlabGrain::layer, device->window().page_bytes);
    device->set_window(spec.window.share_of(total_bytes(slabs)));
  } else if (spec.window.gib > 0) {
    const auto net = static_cast<int64_t>(spec.window.gib * 0x1p30) - dsp.reserve_bytes;
    if (net <= 0)
      return invalid(
          "window: found {} GiB, needed more than the {:.2f} GiB beside weights for a canvas of {} positions",
          spec.window.gib, static_cast<double>(dsp.reserve_bytes) / 0x1p30, positions);
    device->set_window(net);
  }
  LLADA_TRY_STATUS(device->start());
  return device;
}

// What the host multiplies in every step beside an accelerator that works. Everything else is for the day that it
// fails.
std::vector<WeightId> host_weights(const Program& program, const Device& device, bool experts) {
  std::vector<WeightId> ids;
  for (const Op& op : program.ops)
    if (op.kind != OpKind::embed && (device.place(op) == Unit::host || (experts && op.kind == OpKind::experts)))
      for_each_weight(op, [&](WeightId id) { ids.push_back(id); });
  return ids;
}

}  // namespace

Result<std::vector<TensorView>> weight_views(const ModelFile& file, const ModelGraph& graph) {
  std::vector<TensorView> weights;
  weights.reserve(graph.weights.size());
  for (const WeightInfo& w : graph.weights) {
    LLADA_TRY(auto view, w.expert >= 0  ? file.get_expert(w.name, w.dims[0], w.dims[1], w.expert, file.config().experts)
                         : is_vector(w) ? file.get(w.name, {w.dims[0]})
                                        : file.get(w.name, {w.dims[0], w.dims[1]}));
    weights.push_back(view);
  }
  return weights;
}

WeightHooks weight_hooks(const ModelGraph& graph, const std::vector<TensorView>& weights, const MemoryHooks& to_tell) {
  // Copies, for a device that packs later.
  const auto by_index = [&](const WeightHook& hook) -> std::function<void(size_t)> {
    if (!hook) return {};
    return [&graph, weights, hook](size_t i) { hook(graph.weights[i].name, weights[i]); };
  };
  WeightHooks hooks{.planned = {}, .wanted = by_index(to_tell.wanted), .packed = by_index(to_tell.packed)};
  if (to_tell.planned)
    hooks.planned = [weights, planned = to_tell.planned](std::span<const size_t> order) {
      std::vector<TensorView> views;
      for (const size_t i : order) views.push_back(weights[i]);
      planned(std::move(views));
    };
  return hooks;
}

Result<OpenedDevice> open_device(const DeviceSpec& spec, const LoadOptions& options, const ModelFile& file,
                                 const ModelGraph& graph, const MemoryHooks& to_tell) {
  LLADA_TRY(const std::vector<TensorView> weights, weight_views(file, graph));
  const WeightHooks hooks = weight_hooks(graph, weights, to_tell);
  OpenedDevice opened{.device = nullptr, .fallback = nullptr, .expert_costs = {}, .memory = spec.memory};
  const CpuOptions cpu{.threads = options.threads,
                       .isa = options.isa,
                       .exact_attention = options.exact_attention,
                       .when_needed = spec.hexagon || spec.cuda,  // which have a copy of the weights of their own
                       .packed = cached_weights(options, file, graph)};
  LLADA_TRY(auto host, make_cpu_device(cpu, graph.weights, weights, hooks));
  if (spec.fallback) {
    LLADA_TRY(opened.fallback, host->share(cpu.threads));
  }
  HostUnit& unit = *host->capabilities().host;
  if (spec.plugin) {
    LLADA_TRY(opened.device, spec.plugin->open(spec, graph, weights, std::move(host)));
  } else if (spec.hexagon) {
    LLADA_TRY(opened.device, open_hexagon(spec, graph, weights, std::move(host), hooks));
    LLADA_TRY_STATUS(unit.load(host_weights(one_row(graph), *opened.device, false)));
  } else if (spec.cuda) {
    LLADA_TRY(auto gpu, make_cuda_device(spec.gpu, graph.weights, weights, std::move(host), hooks));
    LLADA_TRY_STATUS(unit.load(host_weights(one_row(graph), *gpu, spec.gpu.experts.has_value())));
    if (spec.gpu.experts) {
      const Program program = one_row(graph);
      LLADA_TRY(opened.expert_costs, gpu->measure_experts(*std::ranges::find(program.ops, OpKind::experts, &Op::kind)));
    }
    opened.device = std::move(gpu);
  } else {
    opened.device = std::move(host);
  }
  if (opened.fallback == nullptr) LLADA_TRY_STATUS(opened.device->supports(one_row(graph)));
  if (spec.wrap) opened.device = spec.wrap(std::move(opened.device));
  return opened;
}

}  // namespace llada
