#include "study/devices.h"

#include "engine/device_plugin.h"
#include "engine/device_spec.h"
#include "models/model_graph.h"
#include "study/paging.h"
#include "study/sim/sim_device.h"

namespace llada {
namespace {

constexpr std::string_view kSim = "sim:";

class SimulatedDevice final : public PluginDevice {
 public:
  explicit SimulatedDevice(Profile profile) : profile_(std::move(profile)) {}

  std::string_view options() const override { return "map"; }
  Result<bool> set(std::string_view key, const std::string& value) override {
    if (key != "map") return false;
    if (profile_.map(value).name != value)
      return invalid("map: found '{}', which {} does not have", value, profile_.name);
    options_.map_variant = value;
    return true;
  }

  Status can_hold_experts() const override {
    if (profile_.experts) return {};
    return invalid("profile {} has no numbers for experts, needed such as a6000-pcie4", profile_.name);
  }
  ExpertCosts expert_costs(std::array<double, 3> piece_bytes, double flops_per_row) const override {
    return llada::expert_costs(profile_, options_.map_variant, piece_bytes, flops_per_row);
  }
  void hold_experts(const ExpertCosts& costs, const ExpertWindow& window) override {
    options_.experts = {.costs = costs, .window = window};
  }

  Result<std::unique_ptr<Device>> open(const DeviceSpec& spec, const ModelGraph& graph,
                                       std::span<const TensorView> weights, std::unique_ptr<Device> host) override {
    std::vector<WeightSize> sizes;
    for (const TensorView& view : weights) sizes.push_back({view.bytes(), view.type, view.shape.rank > 1});
    options_.head_on_npu = spec.head_on_accelerator;
    if (spec.window.percent > 0) {
      LLADA_TRY(const auto probe, make_sim_device(profile_, options_, graph.weights, sizes, nullptr));
      const auto uses = weight_uses(graph.forward(plain_shape(1, 1)), *probe);
      options_.window_bytes = spec.window.share_of(total_bytes(group_slabs(uses, SlabGrain::op)));
    } else if (spec.window.gib > 0) {
      const double net = spec.window.gib - profile_.reserve_gib.value;
      if (net <= 0)
        return invalid("window: found {} GiB, needed more than the reserve of {} GiB", spec.window.gib,
                       profile_.reserve_gib.value);
      options_.window_bytes = static_cast<int64_t>(net * 0x1p30);
    } else if (spec.window.unlimited) {
      options_.window_bytes = -1;
    }
    return make_sim_device(profile_, options_, graph.weights, sizes, std::move(host));
  }

 private:
  Profile profile_;
  SimOptions options_;
};

class StudyDevices final : public DevicePlugin {
 public:
  std::string_view form() const override { return "sim:PROFILE"; }
  std::vector<Listed> list() const override {
    std::vector<Listed> list;
    for (const Profile& profile : builtin_profiles())
      list.push_back({std::string(kSim) + profile.name, profile.description + " (modelled time, numerics of the cpu)"});
    return list;
  }
  Result<std::unique_ptr<PluginDevice>> find(std::string_view name) const override {
    if (!name.starts_with(kSim)) return nullptr;
    LLADA_TRY(Profile profile, load_profile(std::string(name.substr(kSim.size()))));
    return std::make_unique<SimulatedDevice>(std::move(profile));
  }
  std::string_view options() const override { return ""; }
  Result<Wrap> wrap(std::string_view, std::string_view) const override { return Wrap(); }
  Result<MemoryOptions> memory(std::string_view name) const override { return memory_from_name(name); }
};

}  // namespace

const DevicePlugin& study_devices() {
  static const StudyDevices devices;
  return devices;
}

}  // namespace llada
