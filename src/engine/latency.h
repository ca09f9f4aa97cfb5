// How long a forward takes on this device as a function of its rows. Multi-block speculation fills forwards up by it
// (decode/speculation.h), and a cost model adds it up. Always measured with the loaded model on the devices and with
// the settings that its requests get, never modelled: wall clock, for one processor thread its processor time.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "decode/options.h"

namespace llada {

class Model;

using decode::LatencyPoint;  // the median of the measured forwards

struct LatencyTable {
  std::string device;                // processor, instruction set, threads
  int64_t keys = 0;                  // canvas positions that attention read
  int64_t logit_rows = 0;            // most rows whose logits were computed
  std::vector<LatencyPoint> points;  // ascending rows, at least one

  // Linear between points; through the origin below the first, the last slope beyond the last.
  double ms(int64_t rows) const;

  // The points that a strategy takes: where more rows were not slower, the smaller point says nothing and is left
  // out, so that rows and times both ascend.
  std::vector<LatencyPoint> buckets() const;
};

struct LatencyRequest {
  int threads = 0;        // 0: the model's own device
  int64_t keys = 0;       // 0: 256, or the model's context where that is shorter
  int64_t most_rows = 0;  // last point, at most keys; 0: 128, of a mixture 256, whose experts serve more rows at once
  int64_t logit_rows = 32;
};

// Warm forwards of 1, 2, 4, 8 rows and so on. A slow point (half a second or more) is measured once, others
// as the median of at least three.
Result<LatencyTable> measure_latency(const Model& model, const LatencyRequest& request);

}  // namespace llada
