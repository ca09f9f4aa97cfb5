// Texts with gaps: where gaps begin and end, and what is refused.
#include "engine/infill_text.h"

#include <gtest/gtest.h>

namespace llada {
namespace {

// "text|[4]|text", to compare whole templates at a glance.
std::string shape(std::string_view text) {
  const auto pieces = parse_infill_template(text);
  if (!pieces) return "error: " + pieces.error().message;
  std::string out;
  for (const InfillPiece& piece : *pieces) {
    if (!out.empty()) out += '|';
    out += piece.gap > 0 ? fmt::format("[{}]", piece.gap) : std::string(piece.text);
  }
  return out;
}

TEST(InfillTemplate, GapsAndText) {
  EXPECT_EQ(shape("The <mask:4> fox"), "The |[4]| fox");
  EXPECT_EQ(shape("<mask>"), "[1]");
  EXPECT_EQ(shape("<mask:512>x<mask:1>"), "[512]|x|[1]");
  EXPECT_EQ(shape("<mask><mask:2>"), "[1]|[2]");
  EXPECT_EQ(shape("a < b <mask> <b>"), "a < b |[1]| <b>");
}

TEST(InfillTemplate, WhatOnlyLooksLikeAGapIsText) {
  EXPECT_EQ(shape("<masked> <Mask> <|mdm_mask|><mask>"), "<masked> <Mask> <|mdm_mask|>|[1]");
  EXPECT_EQ(shape("<<mask>>"), "<|[1]|>");
}

TEST(InfillTemplate, RefusesBadGaps) {
  for (const char* bad : {"<mask:0>", "<mask:513>", "<mask:-1>", "<mask:>", "<mask:4", "<mask:four>", "<mask: 4>",
                          "<mask:4 >", "ok <mask:2> then <mask:99999999999999999999>"}) {
    EXPECT_EQ(shape(bad).rfind("error: the gap \"<mask:", 0), 0u) << bad << " -> " << shape(bad);
  }
}

TEST(InfillTemplate, NeedsAGap) {
  for (const char* bad : {"", "plain", "<", "<mas"})
    EXPECT_EQ(shape(bad).rfind("error: the text has no gap", 0), 0u) << bad;
}

}  // namespace
}  // namespace llada
