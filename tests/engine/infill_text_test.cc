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
    out += piece.gap > 0 ? fmt::format("[{}{}]", piece.automatic ? "<=" : "", piece.gap) : std::string(piece.text);
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

TEST(InfillTemplate, GapsOfOpenLength) {
  EXPECT_EQ(shape("a <mask:auto> b<mask:2>"), "a |[<=32]| b|[2]");
  EXPECT_EQ(shape("<mask:auto:512><mask:auto:1>"), "[<=512]|[<=1]");
}

TEST(InfillTemplate, WhatOnlyLooksLikeAGapIsText) {
  EXPECT_EQ(shape("<masked> <Mask> <|mdm_mask|><mask>"), "<masked> <Mask> <|mdm_mask|>|[1]");
  EXPECT_EQ(shape("<<mask>>"), "<|[1]|>");
}

// The texts of pieces without a gap between them are one.
std::string joined(std::string text) {
  for (size_t at; (at = text.find('|')) != std::string::npos;)
    if (text.substr(at + 1).starts_with('[') || (at > 0 && text[at - 1] == ']'))
      text[at] = '/';
    else
      text.erase(at, 1);
  return text;
}

TEST(InfillTemplate, ABackslashTakesAGapAsText) {
  EXPECT_EQ(joined(shape(R"(a \<mask:x> b<mask>)")), "a <mask:x> b/[1]");
  EXPECT_EQ(joined(shape(R"(\<mask>\<mask:0><mask>)")), "<mask><mask:0>/[1]");
  EXPECT_EQ(joined(shape(R"(\<mask:auto> \<mask:auto:4><mask:auto>)")), "<mask:auto> <mask:auto:4>/[<=32]");
  EXPECT_EQ(joined(shape(R"(\\<mask><mask:2>)")), R"(\/[1]/[2])");
  EXPECT_EQ(joined(shape(R"(C:\\\<mask> <mask>)")), R"(C:\<mask> /[1])");
  EXPECT_EQ(joined(shape(R"(\\\\<mask>)")), R"(\\/[1])");
  EXPECT_EQ(joined(shape(R"(\d+\< <mask>\)")), R"(\d+\< /[1]/\)") << "elsewhere they are text";
  EXPECT_EQ(joined(shape(R"(<mask>\<mask>)")), "[1]/<mask>");
  EXPECT_TRUE(shape(R"(\<mask>)").starts_with("error: the text has no gap"));
}

TEST(InfillTemplate, RefusesBadGaps) {
  for (const char* bad :
       {"<mask:0>", "<mask:513>", "<mask:-1>", "<mask:>", "<mask:4", "<mask:four>", "<mask: 4>", "<mask:4 >",
        "<mask:auto", "<mask:auto:>", "<mask:auto:0>", "<mask:auto:513>", "<mask:autos>", "<mask:Auto>",
        "<mask:auto:auto>", "<mask:32:auto>", "ok <mask:2> then <mask:99999999999999999999>"}) {
    EXPECT_EQ(shape(bad).rfind("error: the gap \"<mask:", 0), 0u) << bad << " -> " << shape(bad);
  }
}

TEST(InfillTemplate, NeedsAGap) {
  for (const char* bad : {"", "plain", "<", "<mas"})
    EXPECT_EQ(shape(bad).rfind("error: the text has no gap", 0), 0u) << bad;
}

}  // namespace
}  // namespace llada
