// The strategy for canvases of random tokens; its rules: uniform_canvas.h.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "decode/form_keeper.h"
#include "decode/strategy.h"

namespace llada::decode {

class UniformStrategy final : public Strategy {
 public:
  // The options are valid for such a model, and the canvas is one that lay_generation() made for it.
  // keeper: of the form that the answer must fit; null: it is free.
  UniformStrategy(const DecodeOptions& options, const SpecialIds& ids, const Canvas& canvas,
                  std::unique_ptr<FormKeeper> keeper = nullptr);

  StepPlan plan(const Canvas& canvas) override;
  std::vector<Edit> accept(const Canvas& canvas, const StepResult& result) override;
  bool done(const Canvas& canvas) const override;
  int64_t step_bound() const override;
  void stored(const Canvas& /*canvas*/, int64_t positions) override { encoded_ = static_cast<int32_t>(positions); }
  int64_t exact_prefix(const Canvas& /*canvas*/) const override { return encoded_; }

 private:
  double temperature() const;
  int32_t canvas_end(const Canvas& canvas) const;
  void fill_with_random(std::span<const size_t> but);
  bool stops(std::span<const Prediction> predictions);
  bool given(const Canvas& canvas, size_t i) const;
  std::vector<Prediction> best_of(const Canvas& canvas, const StepResult& result);

  const SpecialIds ids_;
  const UniformOptions options_;
  const std::unique_ptr<FormKeeper> keeper_;
  const double scale_, entropy_bound_;  // of temperatures
  const uint64_t seed_;
  const bool to_the_end_;  // whatever ends the answer
  const int32_t begin_;    // of the first canvas
  const int64_t canvases_;
  int32_t encoded_ = 0;                        // positions with final K/V
  int32_t canvas_ = 0;                         // the first position of the current one
  int64_t step_ = 0, forward_ = 0;             // of the canvas; of the run
  std::vector<int32_t> current_;               // the tokens of the current canvas
  std::vector<std::vector<int32_t>> history_;  // of best tokens, the latest last
};

}  // namespace llada::decode
