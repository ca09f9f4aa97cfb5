// The head's rule for a row and its result, one struct each for all devices and decoding rules. (The wire format to a
// DSP has sums instead of probabilities: devices/hexagon/wire.h.)
#pragma once
#include <cstdint>
#include <vector>

#include "base/random.h"

namespace llada {

// How the head chooses a token, for all rows of a stream.
struct SamplingRule {
  double temperature = 0;  // Gumbel-max at > 0: argmax(logit - T*ln(-ln U)), U of (seed, forward, position, token)
  uint64_t seed = 0;
  int64_t forward_number = 0;
  bool fixed_noise = false;                  // the noise of a position is the same in every forward
  std::vector<int32_t> never_sampled = {};   // ascending
  std::vector<int32_t> out_of_softmax = {};  // ascending; logit -inf before the softmax: confidence is 0 when chosen

  // The key of the random numbers of the row that predicts at `position` (base/random.h).
  uint64_t key(int64_t position) const {
    return random_key(seed, static_cast<uint64_t>(fixed_noise ? 0 : forward_number), static_cast<uint64_t>(position));
  }
};

// The softmax is over logits without noise at temperature 1, in double. A row with a logit that is not finite has token
// -1 or numbers that are NaN.
struct Prediction {
  int32_t position = 0;    // the row's; devices do not set it
  int32_t token = -1;      // chosen token (sampled at temperature > 0); never the mask token
  float logit = 0;         // its clean logit
  double probability = 0;  // its softmax probability
  double entropy = 0;      // of the softmax, nats
  double margin = 0;       // probability of the best minus that of the second best (clean)
  int32_t runner_up = -1;  // second-best token
};

}  // namespace llada
