// Holds a canvas to a form. Predictions are replaced by those of the best sequence that fits, and tokens that the form
// leaves no choice about are written without a prediction. The decided tokens can be completed at any time. All tokens
// that a step commits are of one joint path, and a change of a token that would break it is not made.
//
// Where the text goes on behind a gap (infilling), every gap fits the form by itself and is filled. Padding of a
// block-causal model is free.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "decode/types.h"
#include "forms/solve.h"

namespace llada::decode {

struct DecodeOptions;

class FormKeeper {
 public:
  FormKeeper(std::shared_ptr<const forms::TokenForm> form, const DecodeOptions& options, const SpecialIds& ids,
             const Canvas& canvas);

  // Before the first plan. Invalid: the form needs more tokens than there are, with the number that would do.
  Status check(const Canvas& canvas);
  // The tokens that the form fixes before `end`, as far as only decided text stands before them, as edits of masks.
  std::vector<Edit> fixed(const Canvas& canvas, int64_t end);

  // Predictions of masked positions (ascending), with the position in the place of the row. `forward` keys the noise.
  std::vector<Prediction> predict(const Canvas& canvas, std::span<const int32_t> positions, const StepResult& result,
                                  int64_t forward);
  // The prediction of a decided position, as the form leaves it given all others.
  Prediction again(const Canvas& canvas, int32_t position, const Prediction& seen, const RowScores& scores);
  // Some edits write another token over a decided one; those that cannot stay keep the old token.
  void keep(const Canvas& canvas, std::vector<Edit>& edits);
  // Says of the edits that made `after` which of them are text of the form itself.
  void mark(const Canvas& after, std::vector<Edit>& edits);

 private:
  struct Stretch {
    int64_t begin, end;
    forms::Track track = {};
  };
  Stretch* stretch_of(int64_t position);
  std::vector<forms::Slot> slots(const Canvas& canvas, const Stretch& stretch) const;
  // row: the head's prediction of the position without the form.
  Prediction prediction_of(const forms::Chosen& chosen, int32_t position, const Prediction& row) const;

  const std::shared_ptr<const forms::TokenForm> form_;
  const SpecialIds ids_;
  const bool sampled_, fixed_noise_, revised_;
  const double heat_;  // divides logits before a rule looks at their distribution
  const uint64_t seed_;
  const std::string key_;
  std::vector<Stretch> stretches_;
  forms::Solver solver_;
  int64_t begun_ = 0;  // the solver's work before this step
};

// Before a strategy is made: writes the tokens that the form fixes. Invalid as in FormKeeper::check().
Status begin_form(std::shared_ptr<const forms::TokenForm> form, const DecodeOptions& options, const SpecialIds& ids,
                  Canvas& canvas);

// Which class scores the head reads beside the best tokens. The form outlives it.
ClassReading class_reading(const forms::TokenForm& form, const DecodeOptions& options);

}  // namespace llada::decode
