// A trace of spans on lanes (cpu, npu, map, dma, decode), written as Chrome/Perfetto JSON. A null Trace* records
// nothing and costs one test.
#pragma once
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"

namespace llada {

class Trace {
 public:
  struct Span {
    std::string lane, name;
    double start_us = 0, duration_us = 0;  // since the trace began
    std::string arguments;                 // JSON object text, or empty
  };

  Trace();
  double now_us() const;
  void add(Span span);              // thread-safe
  std::vector<Span> spans() const;  // so far
  Status write(const std::string& path) const;

 private:
  std::chrono::steady_clock::time_point begin_;
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
};

// Records the time between construction and destruction as one span.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, std::string lane, std::string name) : trace_(trace) {
    if (trace_ != nullptr) span_ = {std::move(lane), std::move(name), trace_->now_us(), 0, {}};
  }
  ~TraceSpan() {
    if (trace_ == nullptr) return;
    span_.duration_us = trace_->now_us() - span_.start_us;
    trace_->add(std::move(span_));
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Trace* trace_;
  Trace::Span span_;
};

}  // namespace llada
