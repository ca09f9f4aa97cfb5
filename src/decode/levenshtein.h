// LLaDA2.2's editing ("Levenshtein"): a block's predictions are tokens or edits that move text. A deletion takes its
// position out: the tokens behind it move left, and the block ends with one more mask. An insertion puts a mask before
// the token at its position, and the tokens from there on move right; those that no longer fit are cut off. Only the
// block under way is edited, and its length stays.
//
// The loop is the one of SGLang's JointThresholdInDel, which follows the `_joint_decode_block` of the published
// checkpoint but for the differences below. A step over the block's predictions:
//   masks    those above the threshold, at least one more than edits have brought in, while the block has one that it
//            began with; then all
//   tokens   another token above edit_threshold is written over one that is there
//   edits    tokens written as a deletion or insertion are carried out, left to right
// The block is finished by a step that writes nothing, or by its last step, which writes neither edit. The last step is
// the edit_steps-th that finds none of the masks that the block began with, and at the latest step block_length +
// edit_steps + 1. (The checkpoint's loop counts anew where such a mask comes back, which cannot be here, and ends after
// 1,000 steps.) Where the block returns to an earlier state, the token of lowest confidence that would be written is
// replaced by the best one that was not written there before. (The checkpoint draws the position.)
//
// Deliberately different: the mask is never predicted. There, a token may be written over by it.
#pragma once
#include <map>
#include <set>
#include <vector>

#include "decode/revision.h"

namespace llada::decode {

class LevenshteinEditing final : public Reviser {
 public:
  LevenshteinEditing(const DecodeOptions& options, const SpecialIds& ids);

  void enter(const Block&) override;
  TokenState first_state(double) const override { return TokenState::visible; }
  Checks checks(const Canvas& canvas, const Block& block) override;
  int32_t ranked(const Canvas& canvas, const Block& block) const override;
  void answered(const Canvas& canvas, const Block& block, const StepResult& result) override;
  int64_t least_commits() const override { return least_; }
  void merge(const Canvas& canvas, const Block& block, std::span<const Prediction> seen, bool pending,
             std::vector<Edit>& edits) override;
  bool keeps_open(const Canvas& canvas, const Block& block) const override;
  int64_t step_bound(int64_t, int64_t blocks) const override { return blocks * (block_length_ + most_ + 1); }

 private:
  // Whether the block began with a mask there, or with one that moved there since.
  bool began_masked(const Block& block, int32_t position) const {
    return original_[static_cast<size_t>(position - block.begin)];
  }
  bool is_edit(int32_t token) const { return token == ids_.delete_id || token == ids_.split_id; }
  int32_t best_of(int32_t position, const auto& refuses) const;
  void break_cycle(const Canvas& canvas, std::vector<Edit>& written);
  std::vector<Edit> move_text(const Canvas& canvas, const Block& block, std::span<const Edit> written);

  const SpecialIds ids_;
  const double threshold_;
  const int64_t block_length_, most_;
  // State of the block under way.
  std::vector<bool> original_;
  std::vector<double> confidence_;
  std::set<std::vector<int32_t>> states_;       // its tokens before each step
  std::map<int32_t, std::set<int32_t>> tried_;  // written at a position so far
  int64_t steps_ = 0, post_ = 0, least_ = 1;
  bool last_ = false, finished_ = false;
  // State of the step.
  std::vector<Prediction> predictions_;
  std::vector<int32_t> ranked_;
};

}  // namespace llada::decode
