// Models that decide an answer in canvases of random tokens, without a mask (DiffusionGemma), as data: how long a
// canvas is, and the numbers that the model was published with. Files give them, decode/uniform_canvas.h says what they
// mean.
#pragma once
#include <cstdint>

namespace llada {

struct UniformCanvas {
  int64_t length = 0;  // positions of a canvas; 0: the model has a mask
  int64_t steps = 48;  // most forwards of one canvas
  double t_min = 0.4, t_max = 0.8;
  double entropy_bound = 0.1;  // nats
  int64_t stability_threshold = 1;
  double confidence_threshold = 0.005;  // nats
};

}  // namespace llada
