// Models that decide an answer in canvases of random tokens, without a mask (DiffusionGemma), as data: how long a
// canvas is, and the numbers that the model was published with. Files give them, decode/uniform_canvas.h says what they
// mean.
#pragma once
#include <algorithm>
#include <cstdint>

namespace llada {

struct UniformCanvas {
  // The last canvas of an answer, and the one of a decision, has as many positions as it needs, rounded up to this.
  static constexpr int64_t kShortest = 16;

  int64_t length = 0;  // most positions of a canvas; 0: the model has a mask
  int64_t steps = 48;  // most forwards of one canvas
  double t_min = 0.4, t_max = 0.8;
  double entropy_bound = 0.1;  // nats
  int64_t stability_threshold = 1;
  double confidence_threshold = 0.005;  // nats

  // Positions of the canvases that hold so many.
  constexpr int64_t holding(int64_t positions) const {
    const int64_t last = positions % length;
    return positions - last + std::min(length, (last + kShortest - 1) / kShortest * kShortest);
  }
  // Positions of the largest canvases among so many.
  constexpr int64_t within(int64_t positions) const {
    return positions - positions % length % std::min(length, kShortest);
  }
};

}  // namespace llada
