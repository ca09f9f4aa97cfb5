// What the head says of one row, from the device that computed it to the rule that decides: one struct for all. (A wire
// format to another processor has its own, sums instead of probabilities: devices/hexagon/wire.h.)
#pragma once
#include <cstdint>

namespace llada {

// Softmax is over clean logits (temperature 1), in double. A row with a logit that is not finite has token -1 or
// numbers that are none.
struct Prediction {
  int32_t position = 0;    // the row's; set where results are put together, not by devices
  int32_t token = -1;      // chosen token (sampled at temperature > 0); never the mask token
  float logit = 0;         // its clean logit
  double probability = 0;  // its softmax probability
  double entropy = 0;      // of the softmax, nats
  double margin = 0;       // probability of the best minus that of the second best (clean)
  int32_t runner_up = -1;  // second-best token
};

}  // namespace llada
