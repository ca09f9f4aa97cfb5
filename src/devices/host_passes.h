// Side passes on the host while an accelerator works on steps: one after another, with an arena of their own.
#pragma once
#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <utility>

#include "base/trace.h"
#include "devices/device.h"

namespace llada {

class HostPasses final : public SidePasses {
 public:
  // host: all passes use its weights and as many threads; it outlives them. ahead: called on the thread of each pass
  // before it is computed.
  explicit HostPasses(const Device& host, std::function<void()> ahead = {}) : host_(host), ahead_(std::move(ahead)) {}
  HostPasses(const HostPasses&) = delete;
  HostPasses& operator=(const HostPasses&) = delete;
  ~HostPasses() override {
    for (auto& [ticket, done] : passes_) done.wait();
  }

  // Called by the device that owns them. Tickets for which has() is true are waited for by take().
  void set_trace(Trace* trace) { trace_ = trace; }
  bool has(Ticket ticket) const { return passes_.contains(ticket); }
  Status take(Ticket ticket) { return passes_.extract(ticket).mapped().get(); }  // waits

  Result<Ticket> submit_side_pass(const Run& run) override {
    if (unit_ == nullptr) {
      LLADA_TRY(unit_, host_.share(host_.info().threads));
    }
    auto before = passes_.empty() ? std::shared_future<Status>() : passes_.rbegin()->second;
    // Without a thread to be had it runs in take().
    auto pass = [this, run, before, trace = trace_]() mutable -> Status {
      if (before.valid()) std::exchange(before, {}).wait();
      const TraceSpan span(trace, "cpu beside", fmt::format("{} rows", run.program->shape.rows));
      if (ahead_) ahead_();
      LLADA_TRY(const Ticket inner, unit_->submit(run));
      return unit_->wait(inner);
    };
    passes_[last_ + 1] = std::async(std::launch::async | std::launch::deferred, std::move(pass)).share();
    return ++last_;
  }
  bool ready(Ticket ticket) override {
    const auto found = passes_.find(ticket);
    // Without a thread it never begins by itself: whoever takes it computes it.
    return found == passes_.end() || found->second.wait_for(std::chrono::seconds(0)) != std::future_status::timeout;
  }
  bool overlaps() const override { return true; }

 private:
  const Device& host_;
  const std::function<void()> ahead_;
  std::unique_ptr<Device> unit_;
  std::map<Ticket, std::shared_future<Status>> passes_;
  Ticket last_ = Ticket{1} << 40;  // beyond those of steps
  Trace* trace_ = nullptr;
};

}  // namespace llada
