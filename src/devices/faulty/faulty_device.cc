#include "devices/faulty/faulty_device.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace llada {
namespace {

class FaultyDevice final : public Device {
 public:
  FaultyDevice(std::unique_ptr<Device> device, FaultPlan plan) : device_(std::move(device)), plan_(plan) {}

  DeviceInfo info() const override { return device_->info(); }
  Result<std::unique_ptr<Device>> share(int threads) const override {
    if (plan_.fault == Fault::allocate) return failed("{}: allocation refused (injected)", info().name);
    LLADA_TRY(auto other, device_->share(threads));
    return std::make_unique<FaultyDevice>(std::move(other), plan_);
  }

  Result<Ticket> submit(const Run& run) override {
    LLADA_TRY_STATUS(alive());
    if (plan_.fault == Fault::allocate) return failed("{}: allocation refused (injected)", info().name);
    const auto ops = static_cast<int64_t>(run.last - run.first);
    const bool hit = (plan_.fault == Fault::submit || plan_.fault == Fault::gone) && ops_ + ops > plan_.at;
    if (hit && plan_.fault == Fault::gone && ops_ < plan_.at) {
      // Half of the run is done: K/V of some layers is new, of others old.
      Run part = run;
      part.last = run.first + static_cast<size_t>(plan_.at - ops_);
      LLADA_TRY(const Ticket ticket, device_->submit(part));
      LLADA_TRY_STATUS(device_->wait(ticket));
    }
    if (hit) {
      gone_ = plan_.fault == Fault::gone;
      return failed("{}: {} at op {} (injected)", info().name, gone_ ? "the device is gone" : "submit failed",
                    plan_.at);
    }
    ops_ += ops;
    if (plan_.fault == Fault::nan && ops_ > plan_.at && run.outputs != nullptr) damaged_.push_back(run.outputs);
    const auto ticket = device_->submit(run);
    // Its numbers are there although nobody has waited.
    if (run.beside && !device_->runs_beside()) damage();
    return ticket;
  }
  Status wait(Ticket ticket) override {
    LLADA_TRY_STATUS(alive());
    LLADA_TRY_STATUS(device_->wait(ticket));
    damage();
    return {};
  }

  SharedBytes allocate(int64_t bytes) override { return device_->allocate(bytes); }
  void use_arena(SharedBytes memory, int64_t bytes) override { device_->use_arena(std::move(memory), bytes); }
  bool runs_beside() const override { return device_->runs_beside(); }
  bool computes() const override { return device_->computes(); }
  Status load(std::span<const WeightId> ids) override { return device_->load(ids); }
  Unit place(const Op& op) const override { return device_->place(op); }
  DeviceWindow window() const override { return device_->window(); }
  std::vector<int64_t> weight_sizes() const override { return device_->weight_sizes(); }
  Status define_slabs(std::vector<DeviceSlab> slabs) override {
    LLADA_TRY_STATUS(alive());
    if (plan_.fault == Fault::allocate) return failed("{}: allocation refused (injected)", info().name);
    return device_->define_slabs(std::move(slabs));
  }
  Status map(int slab, MapMode mode) override {
    LLADA_TRY_STATUS(alive());
    if (plan_.fault == Fault::map && maps_++ >= plan_.at)
      return failed("{}: mapping slab {} refused (injected)", info().name, slab);
    return device_->map(slab, mode);
  }
  Status unmap(int slab) override {
    LLADA_TRY_STATUS(alive());
    return device_->unmap(slab);
  }
  std::span<const float> peek(const Program& program, ValueId id) const override { return device_->peek(program, id); }
  ExpertLink expert_link() override { return device_->expert_link(); }
  void drop_experts() override { device_->drop_experts(); }
  std::optional<EmulatedStats> emulated() override { return device_->emulated(); }
  void reset_emulated() override { device_->reset_emulated(); }
  PhaseTimes take_phase_times() override { return device_->take_phase_times(); }
  int64_t memory_bytes() const override { return device_->memory_bytes(); }
  void set_trace(Trace* trace) override { device_->set_trace(trace); }

 private:
  void damage() {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    for (StepOutputs* outputs : std::exchange(damaged_, {})) {
      for (RowPrediction& p : outputs->predictions) p.probability = p.entropy = p.margin = kNan;
      std::ranges::fill(outputs->logits, static_cast<float>(kNan));
    }
  }
  Status alive() const {
    if (gone_) return failed("{}: the device is gone (injected)", info().name);
    return {};
  }

  std::unique_ptr<Device> device_;
  FaultPlan plan_;
  std::vector<StepOutputs*> damaged_;  // of runs that are not waited for yet
  int64_t ops_ = 0, maps_ = 0;
  bool gone_ = false;
};

}  // namespace

Result<FaultPlan> parse_fault(std::string_view text) {
  if (text == "allocate") return FaultPlan{Fault::allocate, 0};
  for (const auto& [word, fault] :
       {std::pair{"map:", Fault::map}, {"submit:", Fault::submit}, {"gone:", Fault::gone}, {"nan:", Fault::nan}}) {
    if (!text.starts_with(word)) continue;
    const std::string_view number = text.substr(std::string_view(word).size());
    int64_t at = -1;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), at);
    if (error == std::errc() && end == number.data() + number.size() && at >= 0) return FaultPlan{fault, at};
  }
  return invalid("fail: found '{}', needed allocate, map:N, submit:N, gone:N or nan:N", text);
}

std::unique_ptr<Device> make_faulty_device(std::unique_ptr<Device> device, FaultPlan plan) {
  return std::make_unique<FaultyDevice>(std::move(device), plan);
}

}  // namespace llada
