// How large the inputs of each matrix are when the model denoises: sums of squares, column by column. They run over all
// rows of canvases in which tokens are masked at random, as in training. A canvas is one forward, and its rate of masks
// is uniform over (0, 1); both are functions of a seed and the canvas's number. Each expert of a mixture has the rows
// that the router sends to it. The sums are doubles in the order of the rows, so they depend on no number of threads.
//
// Not done: models whose canvases hold random tokens instead of masks (DiffusionGemma), and those that read decided
// tokens before the masks (WeDLM).
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/imatrix.h"
#include "graph/program.h"
#include "graph/step.h"

namespace llada {

class Model;

class Importance {
 public:
  // Invalid: a model of another kind, or a device that does not show its activations.
  static Result<Importance> create(std::shared_ptr<const Model> model);

  // One forward over a canvas of tokens, at most the model's context.
  Status add(std::span<const int32_t> canvas);
  std::vector<ImatrixSums> sums() const;  // matrices in the order of the model's list

 private:
  struct Sums {
    std::vector<double> squares;
    int64_t count = 0;
  };
  explicit Importance(std::shared_ptr<const Model> model);
  Status run(const std::shared_ptr<const Program>& program, const StepInputs& inputs);
  Status look_at_experts(const Program& program, const Op& op);
  void add_rows(WeightId weight, std::span<const float> rows);

  std::shared_ptr<const Model> model_;
  std::vector<Sums> sums_;  // by weight
};

// The rate of a canvas, uniform over (0, 1).
double mask_rate(uint64_t seed, uint64_t number);
// The tokens with those replaced by `mask` whose draw is below the rate.
std::vector<int32_t> masked_at_random(std::span<const int32_t> tokens, int32_t mask, double rate, uint64_t seed,
                                      uint64_t number);

}  // namespace llada
