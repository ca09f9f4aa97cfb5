// Dual-Path Progressive Revision (llada.cpp paper, arXiv 2606.13740). A token is masked, then visible (written, seen by
// all others, still revisable), then stable. The dense path decides masks. A few visible tokens are predicted again
// with themselves masked, in trials. These run in passes of the sparse path beside the steps (one pass at a time), or
// as extra rows of each step's own forward (kFused).
//
// A token is stable at once when it was committed with stable_threshold or more. Otherwise it becomes stable when a
// check agrees with that confidence, when kStableRepeats predictions in a row (the commit included) agree, or after
// kMostChecks checks. Results are merged at the end of a step, together with the dense path's edits. Trials of the
// forward itself are merged in the same step, those of the sparse path revise_lateness steps later.
//
// Conflicts, in this order:
//  1. The dense path edits masks only and the sparse path visible tokens only, so they never write one position. A
//     check of a token that has changed since, or is no longer visible, is dropped.
//  2. A check that disagrees writes its token when its probability is above the acceptance threshold;
//     otherwise the token stays, and the check counts.
//  3. Two changes next to each other were both made in sight of the other's old token. Only the more probable one is
//     written (ties: the lower position), and the other waits for its next check.
//
// A token that was changed is checked again before it is stable, and every check counts against kMostChecks. Tokens
// behind a decided end token are not looked at: they are no content. Once no mask is left before the first end token,
// or none at all, a last step waits for the pass under way. Visible tokens then become stable as they are. Checks
// beyond that cost forwards and mend little (docs/lab/rules.md).
#pragma once
#include <vector>

#include "decode/options.h"

namespace llada::decode {

// The commit and one check that agrees: the fewest predictions that can.
inline constexpr int64_t kStableRepeats = 2;
// A token that is changed to and fro must end somewhere: with 1 and with 8 as many answers are right.
inline constexpr int64_t kMostChecks = 4;

class DualPath final : public Reviser {
 public:
  DualPath(const DecodeOptions& options, const SpecialIds& ids, const Canvas& canvas);

  TokenState first_state(double confidence) const override;
  Checks checks(const Canvas& canvas, const Block& block) override;
  void merge(const Canvas& canvas, const Block& block, std::span<const Prediction> seen, bool pending,
             std::vector<Edit>& edits) override;
  bool waits(const Canvas& canvas) const override;
  int64_t step_bound(int64_t masks, int64_t blocks) const override;

 private:
  struct Memory {
    int64_t looked = 0;  // step of the last look: the commit or a check
    int64_t checks = 0;
    int64_t agreements = 1;  // predictions in a row for the present token
    double confidence = 0;   // of the last one
  };

  std::vector<int32_t> revisable(const Canvas& canvas) const;
  bool all_decided(const Canvas& canvas) const;
  void finish_checked(const Canvas& canvas, bool pending, std::vector<Edit>& edits) const;

  const DecodeOptions options_;
  const SpecialIds ids_;
  const int64_t begin_;          // of the generated region
  std::vector<Memory> memory_;   // by position
  int64_t step_ = 0, turn_ = 0;  // times that results were merged, and that checks were asked for
};

}  // namespace llada::decode
