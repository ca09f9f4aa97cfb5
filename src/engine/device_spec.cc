#include "engine/device_spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "devices/hexagon/reserve.h"

namespace llada {
namespace {

// A number that fills the text up to `unit`.
std::optional<double> number_before(std::string_view text, std::string_view unit) {
  if (!text.ends_with(unit)) return std::nullopt;
  text.remove_suffix(unit.size());
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

Status set_dsp_option(DeviceSpec& spec, std::string_view key, const std::string& value) {
  HexagonOptions& dsp = spec.dsp;
  if (key == "positions") {
    const auto n = number_before(value, "");
    if (!n || *n != std::floor(*n) || *n < 1 || *n > 0x1p20) return invalid("positions: found '{}', needed 1 to 1048576", value);
    spec.positions = static_cast<int64_t>(*n);
  } else if (key == "library") {
    if (value.empty()) return invalid("library: found '', needed a file");
    dsp.library = value;
  } else if (key == "sessions") {
    const auto n = number_before(value, "");
    if (!n || *n != std::floor(*n) || *n < 1 || *n > 8) return invalid("sessions: found '{}', needed 1 to 8", value);
    dsp.sessions = static_cast<int>(*n);
  } else if (key == "deadline") {
    const auto seconds = number_before(value, "");
    if (!seconds || *seconds < 0.01 || *seconds > 3600)
      return invalid("deadline: found '{}', needed 0.01 to 3600 seconds", value);
    dsp.deadline_s = *seconds;
  } else {
    const auto mib = number_before(value, "MiB"), gib = number_before(value, "GiB");
    const double bytes = mib ? *mib * 0x1p20 : gib ? *gib * 0x1p30 : 0;
    if (bytes < 0x1p25 || bytes >= 0x1p32)
      return invalid("space: found '{}', needed such as 64MiB or 2GiB, at least 32 MiB and under 4 GiB", value);
    dsp.space_bytes = static_cast<int64_t>(bytes);
  }
  return {};
}

Status set_budget(CudaOptions& gpu, std::string_view key, const std::string& value) {
  if (key != "budget") return invalid("'{}': needed one of budget, fallback, fail", key);
  const auto mib = number_before(value, "MiB"), gib = number_before(value, "GiB");
  const double bytes = mib ? *mib * 0x1p20 : gib ? *gib * 0x1p30 : 0;
  if (bytes < 0x1p20 || bytes > 0x1p40) return invalid("budget: found '{}', needed such as 512MiB or 4GiB", value);
  gpu.budget_bytes = static_cast<int64_t>(bytes);
  return {};
}

Status set_option(DeviceSpec& spec, std::string_view key, const std::string& value) {
  if (key == "fail") {
    LLADA_TRY(spec.fault, parse_fault(value));
    return {};
  }
  if (key == "fallback") {
    if (value != "cpu" && value != "none") return invalid("fallback: found '{}', needed cpu or none", value);
    spec.fallback = value == "cpu";
    return {};
  }
  if (spec.cuda) return set_budget(spec.gpu, key, value);
  if (!spec.profile && !spec.hexagon) return invalid("'{}': only for {}", key, key == "budget" ? "cuda" : "sim and hexagon");
  if (spec.hexagon && (key == "sessions" || key == "library" || key == "space" || key == "deadline" || key == "positions"))
    return set_dsp_option(spec, key, value);
  if (spec.hexagon && key == "map") return invalid("'map': only for sim");
  if (key == "window") {
    const auto percent = number_before(value, "%"), gib = number_before(value, "GiB");
    if ((value != "unlimited" || spec.hexagon) && !(percent && *percent > 0 && *percent <= 100) &&
        !(gib && *gib > 0 && *gib <= 1024))
      return invalid("window: found '{}', needed such as 40%, 2.5GiB{}", value, spec.hexagon ? "" : " or unlimited");
    spec.window = value;
  } else if (key == "map") {
    if (spec.profile->map(value).name != value)
      return invalid("map: found '{}', which {} does not have", value, spec.profile->name);
    spec.sim.map_variant = value;
  } else if (key == "memory") {
    LLADA_TRY(spec.memory.policy, memory_policy_from_name(value));
  } else if (key == "grain") {
    for (const SlabGrain grain : {SlabGrain::layer, SlabGrain::half_layer, SlabGrain::op})
      if (name(grain) == value) spec.memory.grain = grain;
    if (!spec.memory.grain) return invalid("grain: found '{}', needed layer, half-layer or op", value);
  } else if (key == "head") {
    if (value != "npu" && value != "cpu") return invalid("head: found '{}', needed npu or cpu", value);
    spec.sim.head_on_npu = spec.dsp.head_on_dsp = value == "npu";
  } else {
    return invalid("'{}': needed one of window, {}, memory, grain, head, fallback, fail", key,
                   spec.hexagon ? "sessions, positions, library, space, deadline" : "map");
  }
  return {};
}

}  // namespace

Result<DeviceSpec> parse_device_spec(const std::string& text) {
  DeviceSpec spec;
  std::string_view rest = text;
  constexpr std::string_view kHexagon = "hexagon", kCuda = "cuda";
  std::string_view kind = rest.substr(0, rest.find(','));
  for (const std::string_view name : {kHexagon, kCuda})  // their options come after a colon
    if (rest.starts_with(name) && (rest.size() == name.size() || rest[name.size()] == ':')) kind = name;
  rest.remove_prefix(std::min(kind.size() + 1, rest.size()));
  constexpr std::string_view kSim = "sim:";
  if (kind.starts_with(kSim)) {
    LLADA_TRY(spec.profile, load_profile(std::string(kind.substr(kSim.size()))));
    spec.fallback = true;
  } else if (kind == kHexagon) {
    spec.hexagon = spec.fallback = true;
  } else if (kind == kCuda) {
    spec.cuda = spec.fallback = true;
  } else if (kind != "cpu") {
    return invalid("device '{}' is not available here; this build has: cpu, sim:PROFILE, hexagon, cuda", kind);
  }
  std::set<std::string_view> seen;
  while (!rest.empty()) {
    const std::string_view option = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(option.size() + 1, rest.size()));
    const size_t equals = option.find('=');
    const std::string_view key = option.substr(0, equals);
    if (equals == std::string_view::npos) {
      // The option's own error says which values, or which options, there are.
      const Status status = set_option(spec, key, "");
      return invalid("device '{}': {}", kind,
                     status ? fmt::format("'{}' needs a value, as in {}=...", key, key) : status.error().message);
    }
    if (!seen.insert(key).second) return invalid("device '{}': {} is given twice", kind, key);
    const Status status = set_option(spec, key, std::string(option.substr(equals + 1)));
    if (!status) return invalid("device '{}': {}", kind, status.error().message);
  }
  return spec;
}

namespace {

Program one_row(const ModelGraph& graph) { return graph.forward({.rows = 1, .wanted = 1, .guided = false}); }

Result<std::unique_ptr<Device>> open_hexagon(const DeviceSpec& spec, const ModelGraph& graph,
                                             std::span<const TensorView> weights, std::unique_ptr<Device> host,
                                             const WeightHooks& hooks) {
  const int64_t positions = spec.positions.value_or(graph.context > 0 ? std::min(graph.context, kHexagonRows) : kHexagonRows);
  const auto rows = static_cast<int32_t>(std::min(positions, kHexagonRows));
  HexagonOptions dsp = spec.dsp;
  const Program full = graph.forward({.rows = rows, .wanted = rows, .guided = false});
  dsp.reserve_bytes = hexagon_reserve(full, graph.weights, positions).total();
  LLADA_TRY(auto device, make_hexagon_device(dsp, graph.weights, weights, std::move(host), hooks));
  if (const auto percent = number_before(spec.window, "%")) {
    const Program program = one_row(graph);
    const auto slabs = group_slabs(weight_uses(program, *device), SlabGrain::layer, device->window().page_bytes);
    device->set_window(static_cast<int64_t>(static_cast<double>(total_bytes(slabs)) * *percent / 100));
  } else if (const auto gib = number_before(spec.window, "GiB")) {
    const auto net = static_cast<int64_t>(*gib * 0x1p30) - dsp.reserve_bytes;
    if (net <= 0)
      return invalid("window: found {} GiB, needed more than the {:.2f} GiB beside weights for a canvas of {} positions", *gib,
                     static_cast<double>(dsp.reserve_bytes) / 0x1p30, positions);
    device->set_window(net);
  }
  LLADA_TRY_STATUS(device->start());
  return device;
}

// What the host multiplies in every step beside an accelerator that works. Everything else is for the day that it fails.
std::vector<WeightId> host_weights(const Program& program, const Device& device, bool experts) {
  std::vector<WeightId> ids;
  for (const Op& op : program.ops)
    if (op.kind != OpKind::embed && (device.place(op) == Unit::host || (experts && op.kind == OpKind::experts)))
      for_each_weight(op, [&](WeightId id) { ids.push_back(id); });
  return ids;
}

}  // namespace

bool copies_weights(const DeviceSpec& spec) { return spec.hexagon || spec.cuda; }

Result<OpenedDevice> open_device(const DeviceSpec& spec, const ModelGraph& graph,
                                 std::span<const TensorView> weights, std::unique_ptr<Device> cpu,
                                 int threads, const WeightHooks& hooks) {
  OpenedDevice opened{.device = nullptr, .fallback = nullptr, .expert_costs = {}, .memory = spec.memory};
  if (spec.fallback) {
    LLADA_TRY(opened.fallback, cpu->share(threads));
  }
  Device* const host = cpu.get();  // behind an accelerator it stays where it is
  opened.device = std::move(cpu);
  if (spec.profile) {
    std::vector<WeightSize> sizes;
    for (const TensorView& view : weights) sizes.push_back({view.bytes(), view.type, view.shape.rank > 1});
    SimOptions options = spec.sim;
    if (const auto percent = number_before(spec.window, "%")) {
      LLADA_TRY(const auto probe, make_sim_device(*spec.profile, options, graph.weights, sizes, nullptr));
      const Program program = one_row(graph);
      const auto total = total_bytes(group_slabs(weight_uses(program, *probe), SlabGrain::op));
      options.window_bytes = static_cast<int64_t>(static_cast<double>(total) * *percent / 100);
    } else if (const auto gib = number_before(spec.window, "GiB")) {
      const double net = *gib - spec.profile->reserve_gib.value;
      if (net <= 0)
        return invalid("window: found {} GiB, needed more than the reserve of {} GiB", *gib,
                       spec.profile->reserve_gib.value);
      options.window_bytes = static_cast<int64_t>(net * 0x1p30);
    } else if (spec.window == "unlimited") {
      options.window_bytes = -1;
    }
    LLADA_TRY(opened.device,
              make_sim_device(*spec.profile, options, graph.weights, sizes, std::move(opened.device)));
  }
  if (spec.hexagon) {
    LLADA_TRY(opened.device, open_hexagon(spec, graph, weights, std::move(opened.device), hooks));
    LLADA_TRY_STATUS(host->load(host_weights(one_row(graph), *opened.device, false)));
  }
  if (spec.cuda) {
    LLADA_TRY(auto gpu, make_cuda_device(spec.gpu, graph.weights, weights, std::move(opened.device), hooks));
    LLADA_TRY_STATUS(host->load(host_weights(one_row(graph), *gpu, spec.gpu.experts.has_value())));
    if (spec.gpu.experts) {
      const Program program = one_row(graph);
      LLADA_TRY(opened.expert_costs, gpu->measure_experts(*std::ranges::find(program.ops, OpKind::experts, &Op::kind)));
    }
    opened.device = std::move(gpu);
  }
  if (spec.fault.fault != Fault::none)
    opened.device = make_faulty_device(std::move(opened.device), spec.fault);
  return opened;
}

}  // namespace llada
