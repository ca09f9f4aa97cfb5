// LLaDA2.1's editing: a step also reads the predictions of the block's visible tokens in their own rows; where another
// token has a probability above edit_threshold, it is written. When the block has no mask left, further steps only
// edit, until one changes nothing, at most edit_steps. Meant for models trained to correct unmasked tokens; others
// answer from rows that no loss ever looked at.
#pragma once
#include "decode/revision.h"

namespace llada::decode {

class TokenEditing final : public Reviser {
 public:
  explicit TokenEditing(const DecodeOptions& options);

  void enter(const Block&) override { alone_ = 0, finished_ = false; }
  TokenState first_state(double) const override { return TokenState::visible; }
  Checks checks(const Canvas& canvas, const Block& block) override;
  void merge(const Canvas& canvas, const Block& block, std::span<const Prediction> seen, bool pending,
             std::vector<Edit>& edits) override;
  bool keeps_open(const Canvas& canvas, const Block& block) const override;
  int64_t step_bound(int64_t masks, int64_t blocks) const override { return masks + blocks * most_; }

 private:
  const double threshold_;
  const int64_t most_;
  int64_t alone_ = 0;  // edit-only steps of the block so far
  bool finished_ = false;
};

}  // namespace llada::decode
