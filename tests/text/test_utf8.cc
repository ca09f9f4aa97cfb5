// Streaming of incomplete UTF-8.
#include <gmock/gmock.h>

#include <random>

#include "text/nfc.h"
#include "text/support.h"
#include "text/utf8.h"

namespace llada {
namespace {

TEST(Utf8, EveryCodePointComesBackAndSurrogatesAreInvalid) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    std::string text;
    append_utf8(text, c);
    const Utf8Unit unit = utf8_unit(text);
    ASSERT_EQ(unit.valid, c < 0xD800 || c > 0xDFFF) << std::hex << static_cast<uint32_t>(c);
    if (unit.valid) {
      ASSERT_EQ(unit.code_point, c);
      ASSERT_EQ(static_cast<size_t>(unit.length), text.size());
    }
  }
}

TEST(Utf8, InvalidBytesBecomeOneReplacementPerMaximalSubpart) {
  EXPECT_EQ(to_valid_utf8("a\xF0\x9F\x98z"), "a\uFFFDz");                    // three bytes of an emoji
  EXPECT_EQ(to_valid_utf8("\xC0\xAF"), "\uFFFD\uFFFD");                      // overlong
  EXPECT_EQ(to_valid_utf8("\xE0\x80\x80"), "\uFFFD\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");            // surrogate
  EXPECT_EQ(to_valid_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // above U+10FFFF
  EXPECT_EQ(to_valid_utf8("\xFF"), "\uFFFD");
  EXPECT_EQ(to_valid_utf8(std::string_view("\0é", 3)), std::string_view("\0é", 3));
}

TEST(Utf8, QuotesForErrorLinesStayOnOneLine) {
  EXPECT_EQ(in_quotes("a\nb\x7f\xff\u2028\u0085"), "\"a\\x0ab\\x7f\\xff\\xe2\\x80\\xa8\\xc2\\x85\"");
  EXPECT_LT(in_quotes(std::string(1000, 'x')).size(), 80u);
}

TEST(Utf8Stream, HoldsBackAnUnfinishedCharacterOnly) {
  Utf8Stream stream;
  stream.append("ab\xF0\x9F");
  EXPECT_EQ(stream.take(), "ab");
  stream.append("\x98");
  EXPECT_EQ(stream.take(), "");
  stream.append("\x80!");
  EXPECT_EQ(stream.take(), "\U0001F600!");
  stream.append("x\xE4\xBD");
  EXPECT_EQ(stream.take(), "x");
  EXPECT_EQ(stream.flush(), "\uFFFD");
  EXPECT_EQ(stream.flush(), "");
}

TEST(Utf8Stream, ByteByByteGivesTheSameTextAsAtOnce) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = text_test::random_text(random, 12, 30);
    Utf8Stream stream;
    std::string pieces;
    for (const char byte : text) {
      stream.append(std::string_view(&byte, 1));
      const std::string piece = stream.take();
      ASSERT_EQ(to_valid_utf8(piece), piece);
      pieces += piece;
    }
    ASSERT_EQ(pieces + stream.flush(), to_valid_utf8(text));
  }
}

TEST(Nfc, ComposesOrdersAndExcludes) {
  std::string buffer;
  EXPECT_EQ(to_nfc("plain é", buffer), "plain é");
  EXPECT_EQ(to_nfc("e\u0301", buffer), "\u00e9");
  EXPECT_EQ(to_nfc("a\u0301\u0323", buffer), "\u1ea1\u0301");  // marks ordered, then composed
  EXPECT_EQ(to_nfc("\u212b\u2126", buffer), "\u00c5\u03a9");   // singletons
  EXPECT_EQ(to_nfc("\u0958", buffer), "\u0915\u093c");         // composition exclusion
  EXPECT_EQ(to_nfc("\u1112\u1161\u11ab", buffer), "\ud55c");   // Hangul
  EXPECT_EQ(to_nfc("\ufb01\u00bd", buffer), "\ufb01\u00bd");   // compatibility forms stay
}

// labels: native
TEST(Nfc, LongRunsOfMarksAreNotQuadratic) {
  std::string text = "a", buffer;
  for (int i = 0; i < 250000; ++i) text += i % 2 == 0 ? "\u0301" : "\u0323";
  EXPECT_EQ(to_nfc(text, buffer).size(), text.size());  // a + dot below compose (3 bytes for 1 + 2)
}

TEST(Utf8Stream, KeepsTheBytesThatItIsTold) {
  Utf8Stream stream("\xF8\xF9");
  stream.append("a\xF8\xC3");
  EXPECT_EQ(stream.take(), "a\xF8");
  stream.append("\xA9\xF9\xFA\xC3");
  EXPECT_EQ(stream.take(), "é\xF9\xEF\xBF\xBD");
  EXPECT_EQ(stream.flush(), "\xEF\xBF\xBD");
}

}  // namespace
}  // namespace llada
