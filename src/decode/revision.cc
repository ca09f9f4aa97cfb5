#include "decode/revision.h"

#include <algorithm>

#include "decode/dual_path.h"
#include "decode/token_editing.h"

namespace llada::decode {

std::unique_ptr<Reviser> make_reviser(const DecodeOptions& options, const SpecialIds& ids, const Canvas& canvas) {
  switch (options.revision) {
    case Revision::none:
      return nullptr;
    case Revision::dual_path:
      return std::make_unique<DualPath>(options, ids, canvas);
    case Revision::edit:
      return std::make_unique<TokenEditing>(options);
  }
  return nullptr;
}

Canvas with_edits(const Canvas& canvas, std::span<const Edit> edits) {
  Canvas after = canvas;
  for (const Edit& edit : edits) {
    after.tokens[static_cast<size_t>(edit.position)] = edit.token;
    after.states[static_cast<size_t>(edit.position)] = edit.state;
  }
  return after;
}

void put(std::vector<Edit>& edits, const Edit& edit) {
  const auto at = std::ranges::lower_bound(edits, edit.position, {}, &Edit::position);
  if (at != edits.end() && at->position == edit.position)
    *at = edit;
  else
    edits.insert(at, edit);
}

std::vector<int32_t> visible_in(const Canvas& canvas, const Block& block) {
  std::vector<int32_t> positions;
  for (int32_t p = block.begin; p < block.end; ++p)
    if (canvas.states[static_cast<size_t>(p)] == TokenState::visible) positions.push_back(p);
  return positions;
}

void settle_finished(const Canvas& canvas, const Block& block, std::vector<Edit>& edits) {
  const Canvas after = with_edits(canvas, edits);
  const auto begin = after.states.begin() + block.begin, end = after.states.begin() + block.end;
  if (std::find(begin, end, TokenState::masked) != end) return;
  for (const int32_t p : visible_in(after, block)) {
    const auto known = std::ranges::find(edits, p, &Edit::position);
    const double confidence = known != edits.end() ? known->confidence : 1;
    put(edits, {p, after.tokens[static_cast<size_t>(p)], TokenState::stable, confidence});
  }
}

}  // namespace llada::decode
