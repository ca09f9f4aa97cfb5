#include "engine/device_spec.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/numbers.h"

namespace llada {
namespace {

// A number that fills the text up to `unit`.
std::optional<double> number_before(std::string_view text, std::string_view unit) {
  if (!text.ends_with(unit)) return std::nullopt;
  text.remove_suffix(unit.size());
  const auto value = parse_number<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

// "512MiB", "4GiB"; 0 for anything else.
double size_in_bytes(std::string_view text) {
  return number_before(text, "MiB").value_or(0) * 0x1p20 + number_before(text, "GiB").value_or(0) * 0x1p30;
}

Status set_dsp_option(DeviceSpec& spec, std::string_view key, const std::string& value) {
  HexagonOptions& dsp = spec.dsp;
  if (key == "positions") {
    const auto n = number_before(value, "");
    if (!n || *n != std::floor(*n) || *n < 1 || *n > 0x1p20)
      return invalid("positions: found '{}', needed 1 to 1048576", value);
    spec.positions = static_cast<int64_t>(*n);
  } else if (key == "library") {
    if (value.empty()) return invalid("library: found '', needed a file");
    dsp.library = value;
  } else if (key == "unit") {
    for (const auto& [name, unit] : {std::pair{"vector", HexagonUnit::vector}, std::pair{"matrix", HexagonUnit::matrix},
                                     std::pair{"auto", HexagonUnit::automatic}})
      if (value == name) {
        dsp.unit = unit;
        return {};
      }
    return invalid("unit: found '{}', needed vector, matrix or auto", value);
  } else if (key == "split") {
    const auto percent = number_before(value, "%");
    if (value != "auto" && value != "off" && !(percent && *percent > 0 && *percent < 100))
      return invalid("split: found '{}', needed auto, off, or the host's share such as 40%", value);
    spec.host_share = value == "auto" ? std::nullopt : std::optional(percent.value_or(0) / 100);
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
    const double bytes = size_in_bytes(value);
    if (bytes < 0x1p25 || bytes >= 0x1p32)
      return invalid("space: found '{}', needed such as 64MiB or 2GiB, at least 32 MiB and under 4 GiB", value);
    dsp.space_bytes = static_cast<int64_t>(bytes);
  }
  return {};
}

Status set_cuda_option(CudaOptions& gpu, std::string_view key, const std::string& value, const Error& unknown) {
  if (key == "products") {
    if (value != "float" && value != "tensor") return invalid("products: found '{}', needed float or tensor", value);
    gpu.tensor_products = value == "tensor";
    return {};
  }
  if (key != "budget") return std::unexpected(unknown);
  const double bytes = size_in_bytes(value);
  if (bytes < 0x1p20 || bytes > 0x1p40) return invalid("budget: found '{}', needed such as 512MiB or 4GiB", value);
  gpu.budget_bytes = static_cast<int64_t>(bytes);
  return {};
}

Error unknown_option(const DeviceSpec& spec, const DevicePlugin* plugin, std::string_view key) {
  const std::string_view own = spec.plugin    ? spec.plugin->options()
                               : spec.hexagon ? "sessions, positions, library, profile, space, deadline, unit, split"
                                              : "";
  return invalid("'{}': needed one of {}{}{}, fallback{}{}", key, spec.cuda ? "budget, products" : "window, ", own,
                 spec.cuda ? "" : ", memory, grain, head", plugin != nullptr && !plugin->options().empty() ? ", " : "",
                 plugin != nullptr ? plugin->options() : "")
      .error();
}

Status set_option(DeviceSpec& spec, const DevicePlugin* plugin, std::string_view key, const std::string& value) {
  if (plugin != nullptr) {
    LLADA_TRY(auto wrap, plugin->wrap(key, value));
    if (wrap) {
      spec.wrap = std::move(wrap);
      return {};
    }
  }
  if (key == "fallback") {
    if (value != "cpu" && value != "none") return invalid("fallback: found '{}', needed cpu or none", value);
    spec.fallback = value == "cpu";
    return {};
  }
  if (spec.cuda) return set_cuda_option(spec.gpu, key, value, unknown_option(spec, plugin, key));
  if (!spec.plugin && !spec.hexagon)
    return invalid("'{}': only for {}", key, key == "budget" || key == "products" ? "cuda" : "sim and hexagon");
  if (spec.hexagon && (key == "sessions" || key == "library" || key == "space" || key == "deadline" ||
                       key == "positions" || key == "unit" || key == "split"))
    return set_dsp_option(spec, key, value);
  if (spec.hexagon && key == "profile") {
    LLADA_TRY(spec.measured, read_measured_dsp(value));
    return {};
  }
  if (spec.plugin) {
    LLADA_TRY(const bool own, spec.plugin->set(key, value));
    if (own) return {};
  }
  if (key == "window") {
    const WindowSize window{.percent = number_before(value, "%").value_or(0),
                            .gib = number_before(value, "GiB").value_or(0),
                            .unlimited = value == "unlimited"};
    if (!(window.unlimited && !spec.hexagon) && !(window.percent > 0 && window.percent <= 100) &&
        !(window.gib > 0 && window.gib <= 1024))
      return invalid("window: found '{}', needed such as 40%, 2.5GiB{}", value, spec.hexagon ? "" : " or unlimited");
    spec.window = window;
  } else if (key == "memory") {
    const auto grain = spec.memory.grain;
    if (plugin != nullptr) {
      LLADA_TRY(spec.memory, plugin->memory(value));
    } else {
      LLADA_TRY(spec.memory.policy, memory_policy_from_name(value));
    }
    spec.memory.grain = grain;
  } else if (key == "grain") {
    for (const SlabGrain grain : {SlabGrain::layer, SlabGrain::half_layer, SlabGrain::op})
      if (name(grain) == value) spec.memory.grain = grain;
    if (!spec.memory.grain) return invalid("grain: found '{}', needed layer, half-layer or op", value);
  } else if (key == "head") {
    if (value != "npu" && value != "cpu") return invalid("head: found '{}', needed npu or cpu", value);
    spec.head_on_accelerator = value == "npu";
  } else {
    return std::unexpected(unknown_option(spec, plugin, key));
  }
  return {};
}

}  // namespace

Result<DeviceSpec> parse_device_spec(const std::string& text, const DevicePlugin* plugin) {
  DeviceSpec spec;
  std::string_view rest = text;
  constexpr std::string_view kHexagon = "hexagon", kCuda = "cuda";
  std::string_view kind = rest.substr(0, rest.find(','));
  for (const std::string_view name : {kHexagon, kCuda})  // their options come after a colon
    if (rest.starts_with(name) && (rest.size() == name.size() || rest[name.size()] == ':')) kind = name;
  rest.remove_prefix(std::min(kind.size() + 1, rest.size()));
  if (kind == kHexagon) {
    spec.hexagon = spec.fallback = true;
  } else if (kind == kCuda) {
    spec.cuda = spec.fallback = true;
  } else if (kind != "cpu") {
    if (plugin != nullptr) {
      LLADA_TRY(spec.plugin, plugin->find(kind));
    }
    if (!spec.plugin)
      return invalid("device '{}' is not available here; this build has: cpu, {}{}hexagon, cuda", kind,
                     plugin != nullptr ? plugin->form() : "", plugin != nullptr ? ", " : "");
    spec.fallback = true;
  }
  std::set<std::string_view> seen;
  while (!rest.empty()) {
    const std::string_view option = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(option.size() + 1, rest.size()));
    const size_t equals = option.find('=');
    const std::string_view key = option.substr(0, equals);
    if (equals == std::string_view::npos) {
      // The option's own error says which values, or which options, there are.
      const Status status = set_option(spec, plugin, key, "");
      return invalid("device '{}': {}", kind,
                     status ? fmt::format("'{}' needs a value, as in {}=...", key, key) : status.error().message);
    }
    if (!seen.insert(key).second) return invalid("device '{}': {} is given twice", kind, key);
    const Status status = set_option(spec, plugin, key, std::string(option.substr(equals + 1)));
    if (!status) return invalid("device '{}': {}", kind, status.error().message);
  }
  if (spec.hexagon && spec.memory.policy == MemoryPolicy::copy)
    return invalid("device 'hexagon': memory: found 'copy', but its slabs are mapped, needed plan or sessions");
  if (spec.host_share.value_or(0) > 0) {
    if (spec.dsp.unit == HexagonUnit::matrix)
      return invalid("device 'hexagon': split: found a share beside unit=matrix, whose products are not divided");
    spec.dsp.unit = HexagonUnit::vector;
  }
  if (spec.window.percent == 0 && spec.window.gib == 0) spec.window.gib = spec.measured.window_gib;
  spec.dsp.threads = spec.measured.threads;
  spec.dsp.module = spec.measured.module;
  spec.dsp.host_share = spec.host_share.value_or(spec.measured.host_share);
  return spec;
}

}  // namespace llada
