#include "devices/cuda/op_times.h"

namespace llada::cuda {

Status OpTimes::begin(OpKind kind, int16_t layer, cudaStream_t stream, const Trace* trace) {
  if (timed_.empty()) trace_begin_us_ = trace != nullptr ? trace->now_us() : 0;
  if (events_.size() <= timed_.size()) {
    LLADA_TRY(auto event, make_event(true));
    events_.push_back(std::move(event));
  }
  LLADA_TRY_STATUS(check(cudaEventRecord(events_[timed_.size()].get(), stream), "an event"));
  timed_.emplace_back(kind, layer);
  return {};
}

Status OpTimes::take(PhaseTimes& times, Trace* trace) {
  const auto timed = std::exchange(timed_, {});
  double at_us = trace_begin_us_;
  for (size_t i = 0; i + 1 < timed.size(); ++i) {
    float ms = 0;
    LLADA_TRY_STATUS(check(cudaEventElapsedTime(&ms, events_[i].get(), events_[i + 1].get()), "reading a time"));
    const auto [kind, layer] = timed[i];
    if (layer != kNoOp) {
      times[static_cast<size_t>(kind)] += ms;
      if (trace != nullptr)
        trace->add({"cuda", layer >= 0 ? fmt::format("{} {}", name(kind), layer) : std::string(name(kind)), at_us,
                    double{ms} * 1e3, ""});
    }
    at_us += double{ms} * 1e3;
  }
  return {};
}

}  // namespace llada::cuda
