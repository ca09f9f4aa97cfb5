#include "failing/late_device.h"

#include <chrono>
#include <future>
#include <map>
#include <thread>
#include <utility>

#include "base/random.h"
#include "base/trace.h"

namespace llada {
namespace {

class LateDevice final : public Device, Beside {
 public:
  LateDevice(std::unique_ptr<Device> device, int most_ms, uint64_t seed)
      : device_(std::move(device)), most_ms_(most_ms), seed_(seed) {}
  ~LateDevice() override {
    for (auto& [ticket, pass] : passes_) pass.wait();
  }

  DeviceInfo info() const override { return device_->info(); }
  Result<std::unique_ptr<Device>> share(int threads) const override {
    LLADA_TRY(auto other, device_->share(threads));
    return std::make_unique<LateDevice>(std::move(other), most_ms_, seed_);
  }
  Capabilities capabilities() override {
    Capabilities can = device_->capabilities();
    can.beside = this;
    return can;
  }
  Status supports(const Program& program) const override { return device_->supports(program); }
  Unit place(const Op& op) const override { return device_->place(op); }
  Result<Ticket> submit(const Run& run) override { return device_->submit(run); }

  Result<Ticket> submit_beside(const Run& run) override {
    if (unit_ == nullptr) {
      LLADA_TRY(unit_, device_->share(1));
    }
    const double u = uniform(seed_, static_cast<uint64_t>(++passes_begun_), 0, 0);
    const auto time = std::chrono::microseconds(static_cast<int64_t>(u * most_ms_ * 1000));
    const auto before = passes_.empty() ? std::shared_future<Status>() : passes_.rbegin()->second;
    const auto pass = [this, run, before, time, trace = trace_]() -> Status {
      if (before.valid()) before.wait();
      const TraceSpan span(trace, "beside", "pass");
      std::this_thread::sleep_for(time);
      LLADA_TRY(const Ticket inner, unit_->submit(run));
      return unit_->wait(inner);
    };
    const Ticket ticket = kFirst + passes_begun_;
    passes_[ticket] = std::async(std::launch::async, pass).share();
    return ticket;
  }
  bool ready(Ticket ticket) override {
    return passes_.at(ticket).wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  bool overlaps() const override { return true; }
  Status wait(Ticket ticket) override {
    const auto pass = passes_.extract(ticket);
    return pass.empty() ? device_->wait(ticket) : pass.mapped().get();
  }

  int64_t digest_bytes(const KvShape& kv) const override { return device_->digest_bytes(kv); }
  SharedBytes allocate(int64_t bytes) override { return device_->allocate(bytes); }
  PhaseTimes take_phase_times() override { return device_->take_phase_times(); }
  int64_t memory_bytes() const override { return device_->memory_bytes(); }
  void set_trace(Trace* trace) override {
    trace_ = trace;
    device_->set_trace(trace);
  }

 private:
  static constexpr Ticket kFirst = Ticket{1} << 40;  // tickets from here on are of passes
  std::unique_ptr<Device> device_, unit_;
  const int most_ms_;
  const uint64_t seed_;
  int64_t passes_begun_ = 0;
  Trace* trace_ = nullptr;
  std::map<Ticket, std::shared_future<Status>> passes_;
};

}  // namespace

std::unique_ptr<Device> make_late_device(std::unique_ptr<Device> device, int most_ms, uint64_t seed) {
  return std::make_unique<LateDevice>(std::move(device), most_ms, seed);
}

}  // namespace llada
