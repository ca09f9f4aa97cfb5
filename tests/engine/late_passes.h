// Generations whose checks are passes beside the steps, and what a trace says of both.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/trace.h"
#include "decode/options.h"

namespace llada {

// Nearly every step begins a pass: tokens are committed early, and everything is looked at again.
inline void check_apart(decode::DecodeOptions& options, int64_t lateness) {
  options.revision = decode::Revision::dual_path, options.revise_lateness = lateness;
  options.kv = decode::KvChoice::dual, options.acceptance = decode::Acceptance::threshold;
  options.threshold = 0.3, options.stable_threshold = 1;
  options.early_stop = decode::EarlyStop::none;
}

// Begin and end of each span, in microseconds.
inline std::map<std::string, std::vector<std::pair<double, double>>> spans_by_lane(const Trace& trace) {
  std::map<std::string, std::vector<std::pair<double, double>>> spans;
  for (const Trace::Span& span : trace.spans())
    spans[span.lane].emplace_back(span.start_us, span.start_us + span.duration_us);
  return spans;
}

}  // namespace llada
