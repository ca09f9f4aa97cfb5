// A text with gaps, as people write it: <mask:N> is a gap of N tokens, <mask> one of one token, everything else is
// text. A backslash in front takes either as text: \<mask> is the text <mask>. So one that stands in front of a gap is
// written twice; elsewhere backslashes are text.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/model.h"

namespace llada {

inline constexpr int64_t kMaxGap = 512;

struct InfillPiece {
  std::string_view text;  // into the parsed text; empty for a gap. Pieces of text that follow each other are one text
  int64_t gap = 0;        // tokens; 0 for text
};

// Errors: no gap, or one whose N is not 1 to kMaxGap.
Result<std::vector<InfillPiece>> parse_infill_template(std::string_view text);

struct InfillGap {
  int64_t position, length;
};

struct InfillLayout {
  std::vector<int32_t> tokens;     // any id in the gaps
  std::vector<int32_t> positions;  // of the gaps' tokens
  std::vector<InfillGap> gaps;
};

// The text between two gaps is tokenized on its own, because what stands in a gap is not known yet; so it may be cut
// into other tokens than inside the finished text.
Result<InfillLayout> lay_out_infill(const Model& model, std::span<const InfillPiece> pieces);

}  // namespace llada
