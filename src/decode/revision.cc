#include "decode/revision.h"

#include <algorithm>

#include "decode/dual_path.h"
#include "decode/field_entry.h"
#include "decode/levenshtein.h"
#include "decode/token_editing.h"

namespace llada::decode {

std::span<const Field> revision_fields() {
  using O = RevisionOptions;
  using enum FieldGroup;
  // clang-format off
  static const Field kFields[] = {
    field<&O::revision>(revision, "revision", "WAY",
        "how decided tokens are checked again (threshold 0.7 where none is given); naming an option of one way chooses "
        "that way"),
    field<&O::stable_threshold>(revision, "stable_threshold", "T",
        "dual-path: tokens with a probability from T are final, those below it are predicted again")
        .in(kShare).of(Revision::dual_path),
    field<&O::revise_lateness>(revision, "revise_lateness", "N",
        "where tokens are predicted again; fused: in the step's own forward; N: in a forward beside it, which another "
        "device could run, used N steps later; ready: used as soon as they are there")
        .in({0, 64}).or_word("ready").or_second_word("fused").of(Revision::dual_path),
    field<&O::revise_rows>(revision, "revise_rows", "N", "tokens predicted again per step").in(kPositions)
        .tuned("4 8 16 32").of(Revision::dual_path),
    field<&O::edit_threshold>(revision, "edit_threshold", "T",
        "write another token over a decided one when its probability is above T (LLaDA2.1's editing)")
        .in(kShare).of(Revision::edit),
    field<&O::edit_steps>(revision, "edit_steps", "N",
        "forwards per block that only edit it").in(kSteps).of(Revision::edit),
  };
  // clang-format on
  return kFields;
}

std::unique_ptr<Reviser> make_reviser(const DecodeOptions& options, const SpecialIds& ids, const Canvas& canvas) {
  switch (options.revision) {
    case Revision::none:
      return nullptr;
    case Revision::dual_path:
      return std::make_unique<DualPath>(options, ids, canvas);
    case Revision::edit:
      return std::make_unique<TokenEditing>(options);
    case Revision::levenshtein:
      return std::make_unique<LevenshteinEditing>(options, ids);
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

void finish_block(const Canvas& canvas, const Block& block, std::vector<Edit>& edits) {
  const Canvas after = with_edits(canvas, edits);
  if (has_masks(after, block)) return;
  for (const int32_t p : positions_in(after, block, TokenState::visible)) {
    const auto known = std::ranges::find(edits, p, &Edit::position);
    const double confidence = known != edits.end() ? known->confidence : 1;
    put(edits, {p, after.tokens[static_cast<size_t>(p)], TokenState::stable, confidence});
  }
}

}  // namespace llada::decode
