#include "decode/token_editing.h"

#include "decode/options.h"

namespace llada::decode {

TokenEditing::TokenEditing(const DecodeOptions& options)
    : threshold_(options.edit_threshold), most_(options.edit_steps) {}

Checks TokenEditing::checks(const Canvas& canvas, const Block& block) {
  return {.trials = {}, .in_place = positions_in(canvas, block, TokenState::visible)};
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
  finished_ = alone ? !changed || alone_ >= most_ : most_ == 0;
  if (finished_) finish_block(canvas, block, edits);
}

bool TokenEditing::keeps_open(const Canvas& canvas, const Block& block) const {
  return !finished_ && !positions_in(canvas, block, TokenState::visible).empty();
}

}  // namespace llada::decode
