// When ops begin on a stream: an event in front of every one, read when the stream has been waited for.
#pragma once
#include <utility>
#include <vector>

#include "devices/cuda/runtime.h"
#include "devices/device.h"

namespace llada::cuda {

class OpTimes {
 public:
  Status begin(OpKind kind, int16_t layer, cudaStream_t stream, const Trace* trace);
  // Ends a run; the time until the next one is the host's.
  Status end(cudaStream_t stream, const Trace* trace) { return begin(OpKind::embed, kNoOp, stream, trace); }
  // Adds milliseconds to `times` and spans to `trace` (may be null), and begins anew.
  Status take(PhaseTimes& times, Trace* trace);
  void clear() { timed_.clear(); }

 private:
  static constexpr int16_t kNoOp = -2;  // as a layer
  std::vector<Event> events_;
  std::vector<std::pair<OpKind, int16_t>> timed_;  // an event each, in order
  double trace_begin_us_ = 0;
};

}  // namespace llada::cuda
