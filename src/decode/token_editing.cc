#include "decode/token_editing.h"

#include <algorithm>

namespace llada::decode {

Look TokenEditing::look(const Canvas& canvas, const Block& block) {
  return {.trials = {}, .peeks = visible_in(canvas, block)};
}

void TokenEditing::merge(const Canvas& canvas, const Block& block, std::span<const Prediction> seen,
                         std::vector<Edit>& edits) {
  const auto begin = canvas.states.begin() + block.begin, end = canvas.states.begin() + block.end;
  const bool alone = std::find(begin, end, TokenState::masked) == end;
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
  if (finished_) settle_finished(canvas, block, edits);
}

bool TokenEditing::keeps_open(const Canvas& canvas, const Block& block) const {
  return !finished_ && !visible_in(canvas, block).empty();
}

}  // namespace llada::decode
