// Work that takes part in shared forwards, as whoever drives it sees it: it says what it wants of the next forward and
// takes what came. A generation is one kind (request.h), a score another (likelihood.h).
#pragma once
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "decode/types.h"
#include "engine/model_runner.h"

namespace llada {

class ForwardJob {
 public:
  ForwardJob() = default;
  virtual ~ForwardJob() = default;
  ForwardJob(const ForwardJob&) = delete;
  ForwardJob& operator=(const ForwardJob&) = delete;

  // Makes its first K/V store on the device, which outlives the job; once, before the first plan. prefixes may be null.
  virtual Status allocate(Device& device, PrefixCache* prefixes) = 0;
  virtual bool done() const = 0;
  virtual void cancel() = 0;  // done after this

  // Its steps of the next forward, with a state of its own each: one, and further ones as long as all have at most
  // `rows` rows together. What is not taken is planned again, the same. Not while done().
  virtual Result<std::vector<RequestStep>> plan(int64_t rows) = 0;
  // What one of them brought; prefixes as in RunningRequest::take().
  virtual Status take(const RequestStep& step, decode::StepResult result, double device_seconds,
                      PrefixCache* prefixes) = 0;
};

}  // namespace llada
