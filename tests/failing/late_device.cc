#include "failing/late_device.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/random.h"
#include "devices/host_passes.h"
#include "failing/stub_device.h"

namespace llada {
namespace {

// What both have in common: the device behind, and passes of its own where that has none.
class LateDevice : public PassingDevice {
 public:
  LateDevice(std::unique_ptr<Device> device, std::function<void()> ahead)
      : PassingDevice(*device), device_(std::move(device)) {
    behind_ = device_->capabilities().side_passes;
    if (ahead || behind_ == nullptr || !behind_->overlaps()) behind_ = &passes_.emplace(*device_, std::move(ahead));
  }

  Capabilities capabilities() override {
    Capabilities can = device_->capabilities();
    can.side_passes = behind_;
    return can;
  }
  Status wait(Ticket ticket) override {
    return passes_ && passes_->has(ticket) ? passes_->take(ticket) : device_->wait(ticket);
  }
  void set_trace(Trace* trace) override {
    device_->set_trace(trace);
    if (passes_) passes_->set_trace(trace);
  }

 protected:
  std::unique_ptr<Device> device_;
  SidePasses* behind_ = nullptr;

 private:
  std::optional<HostPasses> passes_;
};

class RandomlyLate final : public LateDevice {
 public:
  RandomlyLate(std::unique_ptr<Device> device, int most_ms, uint64_t seed)
      : LateDevice(std::move(device),
                   [=, pass = uint64_t{0}]() mutable {
                     const double u = uniform(seed, ++pass, 0, 0);
                     std::this_thread::sleep_for(std::chrono::microseconds(static_cast<int64_t>(u * most_ms * 1000)));
                   }),
        most_ms_(most_ms),
        seed_(seed) {}

  Result<std::unique_ptr<Device>> share(int threads) const override {
    LLADA_TRY(auto other, device_->share(threads));
    return std::make_unique<RandomlyLate>(std::move(other), most_ms_, seed_);
  }

 private:
  const int most_ms_;
  const uint64_t seed_;
};

class SlowHost final : public LateDevice, SidePasses, Clock {
 public:
  SlowHost(std::unique_ptr<Device> device, int steps) : LateDevice(std::move(device), {}), steps_(steps) {}

  Result<std::unique_ptr<Device>> share(int threads) const override {
    LLADA_TRY(auto other, device_->share(threads));
    return std::make_unique<SlowHost>(std::move(other), steps_);
  }
  Capabilities capabilities() override {
    Capabilities can = LateDevice::capabilities();
    can.side_passes = this, can.clock = this;
    return can;
  }

  Result<Ticket> submit(const Run& run) override {
    if (run.first == 0) now_ += 1, stats_.npu_s += 1;
    return LateDevice::submit(run);
  }
  Result<Ticket> submit_side_pass(const Run& run) override {
    LLADA_TRY(const Ticket ticket, behind_->submit_side_pass(run));
    last_end_ = std::max(last_end_, now_) + steps_;
    stats_.cpu_s += steps_;
    passes_[ticket].end = last_end_;
    return ticket;
  }
  // By the emulated clock, however long the numbers really take.
  bool ready(Ticket ticket) override {
    const auto found = passes_.find(ticket);
    if (found == passes_.end()) return true;
    if (now_ < found->second.end) return false;
    if (!found->second.ended) found->second.ended = LateDevice::wait(ticket);
    return true;
  }
  bool overlaps() const override { return true; }
  Status wait(Ticket ticket) override {
    const auto pass = passes_.extract(ticket);
    if (pass.empty()) return LateDevice::wait(ticket);
    now_ = std::max(now_, pass.mapped().end);
    return pass.mapped().ended ? *pass.mapped().ended : LateDevice::wait(ticket);
  }

  EmulatedStats emulated() override {
    stats_.seconds = now_ - begin_;
    return stats_;
  }
  void reset_emulated() override { begin_ = now_, stats_ = {.profile = "slow host"}; }
  bool dry() const override { return false; }

 private:
  struct Pass {
    double end = 0;
    std::optional<Status> ended = {};
  };
  const int steps_;
  double now_ = 0, begin_ = 0, last_end_ = 0;
  std::map<Ticket, Pass> passes_;
  EmulatedStats stats_ = {.profile = "slow host"};
};

}  // namespace

std::unique_ptr<Device> make_late_device(std::unique_ptr<Device> device, int most_ms, uint64_t seed) {
  return std::make_unique<RandomlyLate>(std::move(device), most_ms, seed);
}

std::unique_ptr<Device> make_slow_host_device(std::unique_ptr<Device> device, int steps) {
  return std::make_unique<SlowHost>(std::move(device), steps);
}

}  // namespace llada
