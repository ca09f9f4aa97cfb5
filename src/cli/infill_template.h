// A text with gaps, as the command line writes it: <mask:N> is a gap of N tokens, <mask> one of one token,
// everything else is text. There is no escape: a text that must contain "<mask>" itself cannot be given here.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada::cli {

inline constexpr int64_t kMaxGap = 512;

struct InfillPiece {
  std::string_view text;  // into the parsed text; empty for a gap
  int64_t gap = 0;        // tokens; 0 for text
};

// Errors: no gap, or one whose N is not 1 to kMaxGap.
Result<std::vector<InfillPiece>> parse_infill_template(std::string_view text);

}  // namespace llada::cli
