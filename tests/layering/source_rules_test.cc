// Every rule must be able to fail: each is shown a small scripted tree that breaks it, and one that does not.
#include "layering/source_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace llada::layering {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<Layer> kSmallTable = {{"base", {}},
                                        {"low", {"base"}},
                                        {"high", {"low", "base"}},
                                        {"high/special", {"low", "base", "high", "secret"}},
                                        {"secret", {}}};

Findings includes(std::string path, std::string text) {
  return forbidden_includes(std::vector<SourceFile>{{std::move(path), std::move(text)}}, kSmallTable);
}

TEST(ForbiddenIncludes, ReportsFileLineAndWhatIsAllowed) {
  EXPECT_THAT(includes("src/low/a.cc", "// what\n#include \"base/b.h\"\n\n#include \"high/c.h\"\n"),
              ElementsAre("src/low/a.cc:4: #include \"high/c.h\": low may include only base"));
  EXPECT_THAT(includes("src/base/a.h", "#include \"low/b.h\"\n"),
              ElementsAre("src/base/a.h:1: #include \"low/b.h\": base may include nothing else"));
}

TEST(ForbiddenIncludes, AllowsTheTableTheOwnLayerAndSystemHeaders) {
  EXPECT_THAT(includes("src/high/a.cc", "#include <vector>\n#include \"high/a.h\"\n#include \"low/b.h\"\n"), IsEmpty());
}

TEST(ForbiddenIncludes, SeesThroughSpacing) {
  EXPECT_THAT(includes("src/base/a.h", "  #  include   \"low/b.h\"  // why\r\n").size(), 1u);
  EXPECT_THAT(includes("src/base/a.h", "// #include \"low/b.h\"\n"), IsEmpty());
}

TEST(ForbiddenIncludes, TheLongestFolderDecides) {
  EXPECT_THAT(includes("src/high/special/a.cc", "#include \"secret/s.h\"\n#include \"high/h.h\"\n"), IsEmpty());
  EXPECT_THAT(includes("src/high/other/a.cc", "#include \"secret/s.h\"\n"),
              ElementsAre("src/high/other/a.cc:1: #include \"secret/s.h\": high may include only low, base"));
  EXPECT_THAT(includes("src/high/a.cc", "#include \"high/special/a.h\"\n").size(),
              1u);  // an outer layer stays outside
}

TEST(ForbiddenIncludes, RefusesRelativePathsAndUnknownFolders) {
  EXPECT_THAT(includes("src/low/a.cc", "#include \"../base/b.h\"\n#include \"b.h\"\n#include \"nowhere/b.h\"\n"),
              ElementsAre("src/low/a.cc:1: #include \"../base/b.h\": write the path from src/ or include/",
                          "src/low/a.cc:2: #include \"b.h\": write the path from src/ or include/",
                          "src/low/a.cc:3: #include \"nowhere/b.h\": no layer of the table holds it"));
  EXPECT_THAT(includes("src/attic/a.cc", ""), ElementsAre("src/attic/a.cc:1: no layer of the table holds this file"));
  EXPECT_THAT(includes("src/lower/a.cc", "").size(), 1u);  // "low" is not a prefix of a folder's name
}

TEST(SeenThroughHeaders, FollowsHeadersAndKnowsWhatIsMeant) {
  const std::vector<Layer> table = {
      {"low", {}}, {"lower", {}}, {"middle", {"low"}}, {"side", {"low"}}, {"top", {"middle", "side"}}};
  const std::vector<SourceFile> files = {
      {"src/low/a.h", "#include \"lower/deep.h\"\n"},
      {"src/low/b.h", ""},
      {"src/middle/first.h", "\n#include \"middle/second.h\"\n"},
      {"src/middle/second.h", "#include \"low/a.h\"\n"},
      {"src/middle/unused.h", "#include \"low/b.h\"\n"},
      {"src/side/s.h", "#include \"low/b.h\"\n"},
      {"src/top/main.cc", "#include \"middle/first.h\"\n#include \"side/s.h\"\n"},
  };
  constexpr std::string_view kAbove[] = {"top"}, kThrough[] = {"middle"};
  const auto seen = [&](std::span<const std::string_view> shown) {
    return seen_through_headers(files, table, kAbove, kThrough, shown);
  };
  // Two steps away; what a.h includes is its own layer's affair, and the headers of `side` are not followed.
  EXPECT_EQ(seen({}), (Findings{"src/middle/second.h:1: top sees low/a.h through this header, which is not among the "
                                "shown ones"}));
  constexpr std::string_view kMeant[] = {"low/a.h"}, kMore[] = {"low/a.h", "low/b.h"};
  EXPECT_EQ(seen(kMeant), Findings{});
  EXPECT_EQ(seen(kMore), (Findings{"src/low/b.h:1: is among the shown headers, but nobody sees it"}));
}

TEST(IncludeCycles, NamesTheWholeCycle) {
  const std::vector<SourceFile> files = {{"src/base/a.h", "// a\n#include \"base/b.h\"\n"},
                                         {"src/base/b.h", "#include \"base/c.h\"\n"},
                                         {"src/base/c.h", "#include \"base/b.h\"\n"}};
  EXPECT_THAT(include_cycles(files), ElementsAre("src/base/c.h:1: include cycle base/b.h -> base/c.h -> base/b.h"));
}

TEST(IncludeCycles, ADiamondIsNone) {
  const std::vector<SourceFile> files = {{"src/base/a.h", "#include \"base/b.h\"\n#include \"base/c.h\"\n"},
                                         {"src/base/b.h", "#include \"base/d.h\"\n"},
                                         {"src/base/c.h", "#include \"base/d.h\"\n"},
                                         {"src/base/d.h", "#include <vector>\n"}};
  EXPECT_THAT(include_cycles(files), IsEmpty());
}

TEST(HeadComments, AreWanted) {
  const std::vector<SourceFile> files = {{"src/base/a.h", "\n#pragma once\n"},
                                         {"src/base/b.cc", "#include \"base/a.h\"\n"},
                                         {"src/base/empty.h", ""},
                                         {"src/base/notes.txt", "no rule"}};
  EXPECT_THAT(missing_head_comments(files),
              ElementsAre("src/base/a.h:2: the file does not start with a comment that says what it is",
                          "src/base/b.cc:1: the file does not start with a comment that says what it is",
                          "src/base/empty.h:1: the file does not start with a comment that says what it is"));
}

TEST(HeadComments, AnImplementationMayStartWithItsOwnHeader) {
  const std::vector<SourceFile> files = {{"src/base/a.h", "// what it is\n"},
                                         {"src/base/a.cc", "#include \"base/a.h\"\n"},
                                         {"src/base/c.inc", "/* what it is */\n"}};
  EXPECT_THAT(missing_head_comments(files), IsEmpty());
}

TEST(Sizes, CountLinesAndCodePoints) {
  const std::vector<SourceFile> files = {{"a.cc", "1\n2\n3\n"}, {"b.cc", "1\n2\n"}, {"c.cc", "1\n\n3"}};
  EXPECT_THAT(too_many_lines(files, 2), ElementsAre("a.cc:3: the file has 3 lines, at most 2 are wanted",
                                                    "c.cc:3: the file has 3 lines, at most 2 are wanted"));
  const std::vector<SourceFile> wide = {{"d.cc", "short\n123456\n\u00e4\u00f6\u00fc\u00e9\u20ac\n"}};
  EXPECT_THAT(too_long_lines(wide, 5), ElementsAre("d.cc:2: 6 columns, at most 5 are wanted"));
}

TEST(BannedText, IsReportedPerLine) {
  const std::vector<std::string> words = {"later", "never"};
  const std::vector<SourceFile> files = {{"a.cc", "now\nlater, or never\n"}, {"b.cc", "now\n"}};
  EXPECT_THAT(banned_text(files, words), ElementsAre("a.cc:2: contains 'later'", "a.cc:2: contains 'never'"));
}

}  // namespace
}  // namespace llada::layering
