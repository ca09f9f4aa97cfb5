// Devices that tests change in the one thing that they are about.
#pragma once
#include <memory>

#include "devices/device.h"

namespace llada {

// Takes every program and computes nothing.
class StubDevice : public Device {
 public:
  DeviceInfo info() const override { return {"stub", "stub", 1, ""}; }
  Result<std::unique_ptr<Device>> share(int) const override { return failed("one is enough"); }
  Status supports(const Program&) const override { return {}; }
  Result<Ticket> submit(const Run&) override { return 1; }
  Status wait(Ticket) override { return {}; }
  PhaseTimes take_phase_times() override { return {}; }
  int64_t memory_bytes() const override { return 0; }
  void set_trace(Trace*) override {}
};

// Hands everything on to the device behind it.
class PassingDevice : public Device {
 public:
  explicit PassingDevice(Device& behind) : behind_(behind) {}
  DeviceInfo info() const override { return behind_.info(); }
  Result<std::unique_ptr<Device>> share(int threads) const override { return behind_.share(threads); }
  Status supports(const Program& program) const override { return behind_.supports(program); }
  Result<Ticket> submit(const Run& run) override { return behind_.submit(run); }
  Status wait(Ticket ticket) override { return behind_.wait(ticket); }
  int64_t digest_bytes(const KvShape& kv) const override { return behind_.digest_bytes(kv); }
  SharedBytes allocate(int64_t bytes) override { return behind_.allocate(bytes); }
  Unit place(const Op& op) const override { return behind_.place(op); }
  Capabilities capabilities() override { return behind_.capabilities(); }
  PhaseTimes take_phase_times() override { return behind_.take_phase_times(); }
  int64_t memory_bytes() const override { return behind_.memory_bytes(); }
  void set_trace(Trace* trace) override { behind_.set_trace(trace); }

 private:
  Device& behind_;
};

}  // namespace llada
