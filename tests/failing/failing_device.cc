#include "failing/failing_device.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "failing/late_device.h"
#include "failing/stub_device.h"
#include "study/devices.h"

namespace llada {
namespace {

class FailingDevice final : public PassingDevice, Window, ExpertHost, Clock, SidePasses, HostUnit {
 public:
  FailingDevice(std::unique_ptr<Device> device, FaultPlan plan)
      : PassingDevice(*device), device_(std::move(device)), can_(device_->capabilities()), plan_(plan) {}

  // Those of the device behind.
  Capabilities capabilities() override {
    return {.window = can_.window != nullptr ? this : nullptr,
            .experts = can_.experts != nullptr ? this : nullptr,
            .clock = can_.clock != nullptr ? this : nullptr,
            .side_passes = can_.side_passes != nullptr ? this : nullptr,
            .host = can_.host != nullptr ? this : nullptr};
  }

  Result<std::unique_ptr<Device>> share(int threads) const override {
    if (plan_.fault == Fault::allocate) return failed("{}: allocation refused (injected)", info().name);
    LLADA_TRY(auto other, device_->share(threads));
    return std::make_unique<FailingDevice>(std::move(other), plan_);
  }

  Result<Ticket> submit(const Run& run) override {
    return submit(run, [this](const Run& part) { return device_->submit(part); });
  }
  Result<Ticket> submit_side_pass(const Run& run) override {
    const auto ticket = submit(run, [this](const Run& part) { return can_.side_passes->submit_side_pass(part); });
    if (!overlaps()) damage();  // its numbers are there although nobody has waited
    return ticket;
  }
  bool ready(Ticket ticket) override { return can_.side_passes->ready(ticket); }
  bool overlaps() const override { return can_.side_passes->overlaps(); }

  template <typename Submit>
  Result<Ticket> submit(const Run& run, Submit&& behind) {
    LLADA_TRY_STATUS(alive());
    if (plan_.fault == Fault::allocate) return failed("{}: allocation refused (injected)", info().name);
    if (plan_.fault == Fault::crowd && std::ssize(run.inputs->streams) > plan_.at)
      return no_memory("{}: no memory for {} requests, for the time {} (injected)", info().name,
                       run.inputs->streams.size(), ++refusals_);
    const auto ops = static_cast<int64_t>(run.last - run.first);
    const bool hit = (plan_.fault == Fault::submit || plan_.fault == Fault::gone) && ops_ + ops > plan_.at;
    if (hit && plan_.fault == Fault::gone && ops_ < plan_.at) {
      // Half of the run is done: K/V of some layers is new, of others old.
      Run part = run;
      part.last = run.first + static_cast<size_t>(plan_.at - ops_);
      LLADA_TRY(const Ticket ticket, behind(part));
      LLADA_TRY_STATUS(device_->wait(ticket));
    }
    if (hit) {
      gone_ = plan_.fault == Fault::gone;
      return failed("{}: {} at op {} (injected)", info().name, gone_ ? "the device is gone" : "submit failed",
                    plan_.at);
    }
    ops_ += ops;
    if (plan_.fault == Fault::nan && ops_ > plan_.at && run.outputs != nullptr) damaged_.push_back(run.outputs);
    return behind(run);
  }
  Status wait(Ticket ticket) override {
    LLADA_TRY_STATUS(alive());
    LLADA_TRY_STATUS(device_->wait(ticket));
    damage();
    return {};
  }

  void use_arena(SharedBytes memory, int64_t bytes) override { can_.host->use_arena(std::move(memory), bytes); }
  Status load(std::span<const WeightId> ids) override { return can_.host->load(ids); }
  DeviceWindow window() const override { return can_.window->window(); }
  std::vector<int64_t> weight_sizes() const override { return can_.window->weight_sizes(); }
  Status define_slabs(std::vector<DeviceSlab> slabs) override {
    LLADA_TRY_STATUS(alive());
    if (plan_.fault == Fault::allocate) return failed("{}: allocation refused (injected)", info().name);
    return can_.window->define_slabs(std::move(slabs));
  }
  Status map(int slab, MapMode mode) override {
    LLADA_TRY_STATUS(alive());
    if (plan_.fault == Fault::map && maps_++ >= plan_.at)
      return failed("{}: mapping slab {} refused (injected)", info().name, slab);
    return can_.window->map(slab, mode);
  }
  Status unmap(int slab) override {
    LLADA_TRY_STATUS(alive());
    return can_.window->unmap(slab);
  }
  std::string narrow() override { return can_.window->narrow(); }
  std::span<const float> peek(const Program& program, ValueId id) const override {
    return can_.experts->peek(program, id);
  }
  ExpertLink expert_link() override { return can_.experts->expert_link(); }
  void drop_experts() override { can_.experts->begin_expert_run(); }
  EmulatedStats emulated() override { return can_.clock->emulated(); }
  void reset_emulated() override { can_.clock->reset_emulated(); }
  bool dry() const override { return can_.clock->dry(); }

 private:
  void damage() {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    for (StepOutputs* outputs : std::exchange(damaged_, {})) {
      for (Prediction& p : outputs->predictions) p.probability = p.entropy = p.margin = kNan;
      for (auto& logits : outputs->logits) std::ranges::fill(logits, static_cast<float>(kNan));
    }
  }
  Status alive() const {
    if (gone_) return failed("{}: the device is gone (injected)", info().name);
    return {};
  }

  std::unique_ptr<Device> device_;
  Capabilities can_;  // of device_
  FaultPlan plan_;
  std::vector<StepOutputs*> damaged_;  // of runs that are not waited for yet
  int64_t ops_ = 0, maps_ = 0, refusals_ = 0;
  bool gone_ = false;
};

class FailingDevices final : public DevicePlugin {
 public:
  std::string_view form() const override { return study_devices().form(); }
  std::vector<Listed> list() const override { return study_devices().list(); }
  Result<std::unique_ptr<PluginDevice>> find(std::string_view name) const override {
    return study_devices().find(name);
  }
  Result<MemoryOptions> memory(std::string_view name) const override { return study_devices().memory(name); }
  std::string_view options() const override { return "fail"; }
  Result<Wrap> wrap(std::string_view key, std::string_view value) const override {
    if (key == "late") {
      int most_ms = 0, seed = 0;
      const size_t colon = std::min(value.find(':'), value.size() - 1);
      std::from_chars(value.data(), value.data() + colon, most_ms);
      std::from_chars(value.data() + colon + 1, value.data() + value.size(), seed);
      return [=](std::unique_ptr<Device> device) {
        return make_late_device(std::move(device), most_ms, static_cast<uint64_t>(seed));
      };
    }
    if (key == "slow-host") {
      int steps = 0;
      std::from_chars(value.data(), value.data() + value.size(), steps);
      return [=](std::unique_ptr<Device> device) { return make_slow_host_device(std::move(device), steps); };
    }
    if (key != "fail") return Wrap();
    LLADA_TRY(const FaultPlan plan, parse_fault(value));
    return [plan](std::unique_ptr<Device> device) { return make_failing_device(std::move(device), plan); };
  }
};

}  // namespace

const DevicePlugin& failing_devices() {
  static const FailingDevices devices;
  return devices;
}

Result<FaultPlan> parse_fault(std::string_view text) {
  if (text == "allocate") return FaultPlan{Fault::allocate, 0};
  for (const auto& [word, fault] : {std::pair{"map:", Fault::map},
                                    {"submit:", Fault::submit},
                                    {"gone:", Fault::gone},
                                    {"crowd:", Fault::crowd},
                                    {"nan:", Fault::nan}}) {
    if (!text.starts_with(word)) continue;
    const std::string_view number = text.substr(std::string_view(word).size());
    int64_t at = -1;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), at);
    if (error == std::errc() && end == number.data() + number.size() && at >= 0) return FaultPlan{fault, at};
  }
  return invalid("fail: found '{}', needed allocate, map:N, submit:N, gone:N, crowd:N or nan:N", text);
}

std::unique_ptr<Device> make_failing_device(std::unique_ptr<Device> device, FaultPlan plan) {
  return std::make_unique<FailingDevice>(std::move(device), plan);
}

}  // namespace llada
