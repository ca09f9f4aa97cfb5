// A text with gaps, as people write it; everything else is text. <mask:N> is a gap of N tokens, <mask> one of one
// token. <mask:auto> is one whose length the engine chooses, <mask:auto:N> the same with N at most. A backslash in
// front takes any as text: \<mask> is the text <mask>. So one that stands in front of a gap is written twice; elsewhere
// backslashes are text.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/gap_lengths.h"
#include "engine/model.h"

namespace llada {

struct InfillPiece {
  std::string_view text;   // into the parsed text; empty for a gap. Pieces of text that follow each other are one text
  int64_t gap = 0;         // tokens; 0 for text
  bool automatic = false;  // so many at most
};

// Errors: no gap, or one whose N is not 1 to kMaxGap.
Result<std::vector<InfillPiece>> parse_infill_template(std::string_view text);

struct InfillLayout {
  std::vector<int32_t> tokens;     // any id in the gaps
  std::vector<int32_t> positions;  // of the gaps' tokens
  std::vector<InfillGap> gaps;

  std::vector<InfillGap> automatic() const;  // of the gaps
};

// The text between two gaps is tokenized on its own, because the text in a gap is not known yet. So it may be cut into
// other tokens than inside the finished text. Gaps that are automatic are laid at their longest; where the context has
// no room for that, the last ones are shorter, of one token at least.
Result<InfillLayout> lay_out_infill(const Model& model, std::span<const InfillPiece> pieces);

}  // namespace llada
