#include "engine/open_device.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "devices/cpu/cpu_device.h"
#include "devices/cpu/packed_weights.h"
#include "devices/hexagon/reserve.h"
#include "engine/fit_check.h"
#include "engine/model_runner.h"
#include "engine/pack_cache.h"
#include "tensor/view.h"

namespace llada {
namespace {

Program one_row(const ModelGraph& graph) { return graph.forward(plain_shape(1, 1)); }

Result<std::unique_ptr<HexagonDevice>> open_hexagon(const DeviceSpec& spec, const ModelGraph& graph,
                                                    std::span<const TensorView> weights, std::unique_ptr<Device> host,
                                                    const WeightHooks& hooks, const LoadOptions& options) {
  const int64_t positions =
      spec.positions.value_or(graph.context > 0 ? std::min(graph.context, kHexagonRows) : kHexagonRows);
  const auto rows = static_cast<int32_t>(std::min(positions, kHexagonRows));
  HexagonOptions dsp = spec.dsp;
  // Whoever loads is told while it loads; later lines are the executor's.
  const auto loading = std::make_shared<bool>(true);
  dsp.warn = [loading, warn = options.warn](const std::string& line) {
    if (*loading && warn) warn(line);
  };
  dsp.cache = std::filesystem::path(options.pack_cache.folder).parent_path().string();
  dsp.head_on_dsp = spec.head_on_accelerator.value_or(true);
  const Program full = graph.forward(plain_shape(rows, rows));
  dsp.reserve_bytes = hexagon_reserve(full, graph.weights, positions, dsp.host_share > 0).total();
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
  const Status started = device->start();
  *loading = false;
  LLADA_TRY_STATUS(started);
  return device;
}

Result<std::unique_ptr<CudaDevice>> open_cuda(CudaOptions gpu, const LoadOptions& options, const ModelFile& file,
                                              const ModelGraph& graph, std::span<const TensorView> weights,
                                              std::unique_ptr<Device> host, const WeightHooks& hooks) {
  if (!options.system_root.empty()) {
    const int32_t rows = counted_positions(graph);
    gpu.step = std::make_shared<Program>(graph.forward(plain_shape(rows, rows)));
    gpu.kv_bytes = static_cast<int64_t>(KvStore::needed_bytes(kv_shape(file, graph, rows, false)));
  }
  return make_cuda_device(gpu, graph.weights, weights, std::move(host), hooks);
}

// The weights that the host multiplies by in every step beside an accelerator that works. Everything else is for the
// day that it fails.
template <class OnHost>
std::vector<WeightId> host_weights(const Program& program, const OnHost& on_host) {
  std::vector<WeightId> ids;
  for (const Op& op : program.ops)
    if (op.kind != OpKind::embed && on_host(op)) for_each_weight(op, [&](WeightId id) { ids.push_back(id); });
  return ids;
}

// The memory that there is; nothing where nobody looks, or nothing is read from files.
std::optional<MemoryRoom> room_to_keep(const LoadOptions& options, const ModelFile& file) {
  return options.system_root.empty() || file.files().empty() ? std::nullopt : find_memory_room(options.system_root);
}

// The packed weights that are on disk, where a file's model fits into memory with or without them; null: none are.
// on_host: the weights that the cpu packs.
Result<std::shared_ptr<const PackedWeights>> fitting_weights(const LoadOptions& options, const ModelFile& file,
                                                             const ModelGraph& graph,
                                                             std::span<const TensorView> weights,
                                                             std::span<const WeightId> on_host) {
  const auto room = room_to_keep(options, file);
  if (!room) return cached_weights(options, file, graph);
  LLADA_TRY(const auto* kernels, kernels::select(options.isa));
  MemoryNeed need = memory_need(file, graph, weights, *kernels, on_host);
  LoadOptions with = options;
  PackCache& cache = with.pack_cache;
  if (cache.use == PackCache::Use::found && keeps_packed(need, *room)) cache.use = PackCache::Use::make_with_room;
  auto packed = cached_weights(with, file, graph);
  if (packed != nullptr) need.packed = 0;
  LLADA_TRY_STATUS(check_fit(file.path(), need, *room));
  return packed;
}

// The same of a DSP, whose weights lie in buffers that it shares with the host, and whose window has to hold them, or
// parts of them by turns. on_host: the weights that the cpu packs, where they are not on disk.
Status check_hexagon(HexagonDevice& dsp, const MemoryOptions& memory, const LoadOptions& options, const ModelFile& file,
                     const ModelGraph& graph, std::span<const TensorView> weights, std::span<const WeightId> on_host,
                     bool divides) {
  const Program program = one_row(graph);
  LLADA_TRY_STATUS(MemoryRuntime::fits(dsp, program, memory));
  const auto room = room_to_keep(options, file);
  if (!room) return {};
  LLADA_TRY(const auto* kernels, kernels::select(options.isa));
  MemoryNeed need = memory_need(file, graph, weights, *kernels, on_host);
  for (const WeightUse& use : weight_uses(program, dsp)) need.shared += use.bytes;
  const int32_t rows = counted_positions(graph);
  const HexagonReserve beside = hexagon_reserve(graph.forward(plain_shape(rows, rows)), graph.weights, rows, divides);
  need.activations += beside.arena + beside.staging + beside.scratch + beside.divided;  // each side has an arena
  return check_fit(file.path(), need, *room);
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
  WeightHooks hooks = weight_hooks(graph, weights, to_tell);
  OpenedDevice opened{.device = nullptr, .fallback = nullptr, .expert_costs = {}, .memory = spec.memory};
  const bool copies = spec.hexagon || spec.cuda;  // which have a copy of the weights of their own
  std::vector<WeightId> on_host;                  // weights that the cpu packs
  if (!copies) on_host = every_weight(graph);
  // Beside a copy of an accelerator's the host packs where a pass or a fallback needs it, long after the model is open.
  if (copies && !options.system_root.empty())
    hooks.admit = [model = file.path(), root = options.system_root](int64_t bytes) {
      const auto room = find_memory_room(root);
      return room ? check_second_copy(model, bytes, *room) : Status{};
    };
  // Experts that move to the GPU are read from where they are whenever they move.
  if (spec.gpu.experts && file.makes()) {
    file.keep_made();
    for (size_t i = 0; i < weights.size(); ++i)
      if (graph.weights[i].expert >= 0) LLADA_TRY_STATUS(file.make(weights[i]));
  }
  if (spec.gpu.experts) on_host = host_weights(one_row(graph), [](const Op& op) { return op.kind == OpKind::experts; });
  std::shared_ptr<const PackedWeights> packed;
  if (spec.hexagon) {
    packed = cached_weights(options, file, graph);  // other needs are known when the DSP is there
  } else {
    LLADA_TRY(packed, fitting_weights(options, file, graph, weights, on_host));
  }
  const bool on_disk = packed != nullptr;
  const CpuOptions cpu{.threads = options.threads,
                       .isa = options.isa,
                       .exact_attention = options.exact_attention,
                       .when_needed = copies,
                       .packed = std::move(packed)};
  const auto begin = std::chrono::steady_clock::now();
  LLADA_TRY(auto host, make_cpu_device(cpu, graph.weights, weights, hooks));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!copies && !on_disk && options.warn)
    if (const auto note = packing_note(options.pack_cache, file.path(), seconds); !note.empty()) options.warn(note);
  if (spec.fallback && !spec.hexagon) {
    LLADA_TRY(opened.fallback, host->share(cpu.threads));
  }
  HostUnit& unit = *host->capabilities().host;
  if (spec.plugin) {
    LLADA_TRY(opened.device, spec.plugin->open(spec, graph, weights, std::move(host)));
  } else if (spec.hexagon) {
    LLADA_TRY(auto dsp, open_hexagon(spec, graph, weights, std::move(host), hooks, options));
    on_host = host_weights(one_row(graph), [&](const Op& op) { return dsp->place(op) == Unit::host; });
    LLADA_TRY_STATUS(check_hexagon(*dsp, spec.memory, options, file, graph, weights,
                                   on_disk ? std::span<const WeightId>() : on_host, spec.dsp.host_share > 0));
    LLADA_TRY_STATUS(unit.load(on_host));
    if (spec.fallback) {
      LLADA_TRY(opened.fallback, dsp->on_host(cpu.threads));
    }
    opened.device = std::move(dsp);
  } else if (spec.cuda) {
    LLADA_TRY(auto gpu, open_cuda(spec.gpu, options, file, graph, weights, std::move(host), hooks));
    LLADA_TRY_STATUS(unit.load(on_host));
    if (spec.gpu.experts) {
      const Program program = one_row(graph);
      LLADA_TRY(opened.expert_costs, gpu->measure_experts(*std::ranges::find(program.ops, OpKind::experts, &Op::kind)));
    }
    opened.device = std::move(gpu);
  } else {
    opened.device = std::move(host);
  }
  LLADA_TRY_STATUS(opened.device->supports(one_row(graph)));  // also where another would take over
  if (spec.wrap) opened.device = spec.wrap(std::move(opened.device));
  return opened;
}

}  // namespace llada
