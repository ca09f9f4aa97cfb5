// LLaDA2.1's editing: a step also reads the predictions of the block's visible tokens in their own rows; where another
// token has a probability above edit_threshold, it is written. When the block has no mask left, further steps only
// edit, until one changes nothing, at most edit_steps. Meant for models trained to correct unmasked tokens; others
// answer from rows that no loss ever looked at.
//
// edit_blocks goes on where a block is done. The block and the one before it see all of each other, as with full
// attention. Their tokens are edited together until a step changes nothing, at most kJointSteps. So tokens written
// without sight of the following block are read again in its sight. Then the earlier block is final. Keys and values
// that such steps store are not exact, and the next block's first forward computes them anew. Source: Multi-Block
// Editing without training (arXiv 2607.22663: two blocks, five steps; LLaDA2.1's report, 4.3, has the idea alone). The
// paper's text was not at hand, an abstract and notes on it were: that tokens of both blocks are edited, above the same
// threshold, is our reading.
#pragma once
#include <optional>

#include "decode/revision.h"

namespace llada::decode {

class TokenEditing final : public Reviser {
 public:
  static constexpr int64_t kJointSteps = 5;

  TokenEditing(const DecodeOptions& options, const SpecialIds& ids, const Canvas& canvas);

  void enter(const Block& block) override;
  TokenState first_state(double) const override { return TokenState::visible; }
  Checks checks(const Canvas& canvas, const Block& block) override;
  int32_t open_from() const override { return joint_ ? *before_ : INT32_MAX; }
  void merge(const Canvas& canvas, const Block& block, std::span<const Prediction> seen, bool pending,
             std::vector<Edit>& edits) override;
  bool keeps_open(const Canvas& canvas, const Block& block) const override;
  int64_t step_bound(int64_t masks, int64_t blocks) const override {
    return masks + blocks * (most_ + (across_ ? kJointSteps : 0));
  }

 private:
  void finish(const Canvas& canvas, const Block& block, std::vector<Edit>& edits) const;

  const std::vector<int32_t> end_ids_;
  const double threshold_;
  const int64_t most_;
  const bool across_;                        // blocks are edited together
  const int64_t begin_;                      // of the generated region
  std::optional<int32_t> before_, current_;  // where these blocks begin
  int64_t alone_ = 0;                        // edit-only steps of the block, or of both together, so far
  bool joint_ = false, finished_ = false;
};

}  // namespace llada::decode
