// Published ways of repairing early commits, behind the same interface as ours, so that they can be compared
// on the same examples.
#pragma once
#include <map>
#include <set>
#include <vector>

#include "decode/revision.h"

namespace llada::decode {

// WINO (Wide-In, Narrow-Out): the acceptance rule commits at a low threshold (its paper: 0.6); each step also
// predicts every token of the block that was committed in an earlier step with itself masked and all others
// in place (the paper's shadow rows; here trials. In the published code shadow rows of a step also see each other; here
// each sees its own mask alone). Tokens that the others give less than wino_back (0.9) are
// masked again. As published: at most min(max(0.7 x masks left, 5), 20) commits per step; masks are put back
// only in a step that commits more than one, and fewer of them than the step before committed (the worst
// ones), so a block of M masks takes at most M steps. A prediction names the two best tokens only; a
// committed token that is neither counts as probability 0, which is below any allowed wino_back in any case.
class Wino final : public Reviser {
 public:
  explicit Wino(const DecodeOptions& options) : back_(options.wino_back) {}

  std::unique_ptr<Reviser> clone() const override { return std::make_unique<Wino>(*this); }
  void enter(const Block&) override { last_ = 1; }
  TokenState first_state(double) const override { return TokenState::visible; }
  Look look(const Canvas& canvas, const Block& block) override;
  void merge(const Canvas& canvas, const Block& block, std::span<const Prediction> seen,
             std::vector<Edit>& edits) override;
  int64_t step_bound(int64_t masks, int64_t) const override { return masks; }

 private:
  const double back_;
  int64_t last_ = 1;  // commits of the block's last step
};

// LLaDA2.1's editing: a step also reads the predictions of the block's visible tokens in their own rows;
// where another token has a probability above edit_threshold, it is written. When the block has no mask left,
// further steps only edit, until one changes nothing, at most edit_steps. Meant for models trained to correct
// unmasked tokens; others answer from rows that no loss ever looked at. With edit_mask a suspect token is masked and
// decided again instead, once at each position (T2M, arXiv 2604.18738): a wrong token in its place pulls the prediction
// of its own row towards itself, a mask does not.
class TokenEditing final : public Reviser {
 public:
  explicit TokenEditing(const DecodeOptions& options)
      : threshold_(options.edit_threshold), most_(options.edit_steps), masks_(options.edit_mask) {}

  std::unique_ptr<Reviser> clone() const override { return std::make_unique<TokenEditing>(*this); }
  void enter(const Block&) override { finished_ = false, alone_ = 0; }
  TokenState first_state(double) const override { return TokenState::visible; }
  Look look(const Canvas& canvas, const Block& block) override;
  void merge(const Canvas& canvas, const Block& block, std::span<const Prediction> seen,
             std::vector<Edit>& edits) override;
  bool keeps_open(const Canvas& canvas, const Block& block) const override;
  int64_t step_bound(int64_t masks, int64_t blocks) const override { return masks * (masks_ ? 2 : 1) + blocks * most_; }

 private:
  const double threshold_;
  const int64_t most_;
  const bool masks_;
  std::set<int32_t> masked_;  // positions that were masked again
  int64_t alone_ = 0;         // edit-only steps of the block so far
  bool finished_ = false;
};

// Re-masking by stored confidence, as ReMDM's confidence schedule and RemeDi do, without sampling: after a
// step, of the block's tokens committed in earlier steps, the remask_share (rounded up) with the lowest
// confidence at their commit are masked again if that was below remask_below; no position more than
// remask_limit times. The published schedules draw them at random by confidence and RemeDi learns the score.
class ConfidenceRemasking final : public Reviser {
 public:
  explicit ConfidenceRemasking(const DecodeOptions& options)
      : share_(options.remask_share), below_(options.remask_below), limit_(options.remask_limit) {}

  std::unique_ptr<Reviser> clone() const override { return std::make_unique<ConfidenceRemasking>(*this); }
  TokenState first_state(double) const override { return TokenState::visible; }
  Look look(const Canvas&, const Block&) override { return {}; }
  void merge(const Canvas& canvas, const Block& block, std::span<const Prediction> seen,
             std::vector<Edit>& edits) override;
  int64_t step_bound(int64_t masks, int64_t) const override { return masks * (1 + limit_); }

 private:
  struct Memory {
    double confidence = 0;
    int64_t times = 0;  // masked again
    int32_t was = -1;   // the token that was masked away
  };
  const double share_, below_;
  const int64_t limit_;
  std::map<int32_t, Memory> memory_;
};

}  // namespace llada::decode
