#include "decode/token_editing.h"

#include "decode/answer.h"
#include "decode/canvas.h"
#include "decode/options.h"

namespace llada::decode {

TokenEditing::TokenEditing(const DecodeOptions& options, const SpecialIds& ids, const Canvas& canvas)
    : end_ids_(ids.end_ids),
      threshold_(options.edit_threshold),
      most_(options.edit_steps),
      across_(options.revision == Revision::edit_blocks),
      begin_(generated_begin(canvas)) {}

void TokenEditing::enter(const Block& block) {
  before_ = current_, current_ = block.begin;
  alone_ = 0, joint_ = finished_ = false;
}

Checks TokenEditing::checks(const Canvas& canvas, const Block& block) {
  const Block read{.begin = joint_ ? *before_ : block.begin, .end = block.end, .masks = 0};
  return {.trials = {}, .in_place = positions_in(canvas, read, TokenState::visible)};
}

void TokenEditing::merge(const Canvas& canvas, const Block& block, std::span<const Prediction> seen, bool,
                         std::vector<Edit>& edits) {
  const bool alone = !has_masks(canvas, block);
  bool changed = false;
  for (const Prediction& p : seen) {
    ++made_;
    if (p.token == canvas.tokens[static_cast<size_t>(p.position)] || !(p.probability > threshold_)) continue;
    ++changed_;
    changed = true;
    put(edits, {p.position, p.token, TokenState::visible, p.probability});
  }
  alone_ += alone;
  const int64_t most = joint_ ? kJointSteps : most_;
  finished_ = alone ? !changed || alone_ >= most : most == 0;
  if (!finished_) return;
  if (across_ && !joint_ && before_) {
    finished_ = false;
    joint_ = !has_masks(with_edits(canvas, edits), block);
    alone_ = 0;
  } else {
    finish(canvas, block, edits);
  }
}

// With blocks that are edited together, the last one stays to be read with the next, unless the answer ends in it.
void TokenEditing::finish(const Canvas& canvas, const Block& block, std::vector<Edit>& edits) const {
  if (!across_) return finish_block(canvas, block, edits);
  const Canvas after = with_edits(canvas, edits);
  if (has_masks(after, block)) return;
  const bool last = first_end(after, begin_, block.end, end_ids_) < block.end ||
                    std::ranges::count(after.states, TokenState::masked) == 0;
  const Block read{.begin = static_cast<int32_t>(begin_), .end = last ? block.end : block.begin, .masks = 0};
  finish_block(canvas, read, edits);
}

bool TokenEditing::keeps_open(const Canvas& canvas, const Block& block) const {
  return !finished_ && !positions_in(canvas, block, TokenState::visible).empty();
}

}  // namespace llada::decode
