// Passes of their own on the host while the DSP works on steps: one after another, with an arena of theirs.
#pragma once
#include <fmt/format.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <utility>

#include "base/trace.h"
#include "devices/device.h"

namespace llada::hexagon {

class HostPasses {
 public:
  HostPasses() = default;
  HostPasses(const HostPasses&) = delete;
  HostPasses& operator=(const HostPasses&) = delete;
  ~HostPasses() {
    for (auto& [ticket, done] : passes_) done.wait();
  }

  // host: whose threads and weights a first pass shares.
  Status begin(Ticket ticket, const Run& run, const Device& host, Trace* trace) {
    if (unit_ == nullptr) {
      LLADA_TRY(unit_, host.share(host.info().threads));
    }
    auto before = passes_.empty() ? std::shared_future<Status>() : passes_.rbegin()->second;
    // Without a thread to be had it runs in take().
    auto pass = [this, run, before, trace]() mutable -> Status {
      if (before.valid()) std::exchange(before, {}).wait();
      const TraceSpan span(trace, "cpu beside", fmt::format("{} rows", run.program->shape.rows));
      LLADA_TRY(const Ticket inner, unit_->submit(run));
      return unit_->wait(inner);
    };
    passes_[ticket] = std::async(std::launch::async | std::launch::deferred, std::move(pass)).share();
    return {};
  }
  bool has(Ticket ticket) const { return passes_.contains(ticket); }
  bool ready(Ticket ticket) const {
    const auto found = passes_.find(ticket);
    return found == passes_.end() || found->second.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  Status take(Ticket ticket) { return passes_.extract(ticket).mapped().get(); }  // waits

 private:
  std::unique_ptr<Device> unit_;
  std::map<Ticket, std::shared_future<Status>> passes_;
};

}  // namespace llada::hexagon
