// Holds a canvas to a form. Predictions are replaced by those of the best sequence that fits, and tokens that the form
// leaves no choice about are written without a prediction. The invariant: the decided tokens can always be completed to
// a text that fits. So all tokens that a step commits are of one sequence, and a change that would break it is undone.
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

  // Called before the first plan. Invalid: the form needs more positions than there are; the error says how many.
  Status check(const Canvas& canvas);
  // The tokens that the form fixes before `end`, as far as only decided text stands before them, as edits of masks.
  std::vector<Edit> fixed(const Canvas& canvas, int64_t end);

  // Predictions of masked positions (ascending), with the position in the place of the row. `forward` keys the noise.
  std::vector<Prediction> predict(const Canvas& canvas, std::span<const int32_t> positions, const StepResult& result,
                                  int64_t forward);
  // The prediction of a decided position among the tokens that fit there, given all others.
  Prediction predict_again(const Canvas& canvas, int32_t position, const Prediction& seen, const RowScores& scores);
  // Gives edits that write over a decided token the old token again, where the new one cannot be completed.
  void keep(const Canvas& canvas, std::vector<Edit>& edits);
  // Sets Edit::by_form of the edits that made `after`.
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
