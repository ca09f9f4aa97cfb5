// Texts from outside: what is UTF-8, what stands in front of it, and what an error says of the rest.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "must.h"
#include "text/text_file.h"

namespace llada {
namespace {

using namespace std::string_literals;

std::string message(std::string bytes) { return why_not(as_text(std::move(bytes), "f")); }

TEST(TextFile, AMarkInFrontIsLeftOut) {
  EXPECT_EQ(*as_text("\xEF\xBB\xBFhello", "f"), "hello");
  EXPECT_EQ(*as_text("\xEF\xBB\xBF", "f"), "");
  EXPECT_EQ(*as_text("a\xEF\xBB\xBFz", "f"), "a\xEF\xBB\xBFz") << "elsewhere it is a character";
}

TEST(TextFile, Utf8IsTakenAsItIs) {
  for (const std::string& text : {""s, "a"s, "é日😀"s, "a\r\nb\r\n"s, "\xF4\x8F\xBF\xBF"s})
    EXPECT_EQ(*as_text(text, "f"), text);
}

TEST(TextFile, OtherEncodingsAreNamed) {
  EXPECT_EQ(message("\xFF\xFE\0\0h\0\0\0"s), "f: found UTF-32, needed UTF-8");
  EXPECT_EQ(message("\0\0\xFE\xFF\0\0\0h"s), "f: found UTF-32, needed UTF-8");
}

// Python's "é日😀\n".encode("utf-16-le") and ("utf-16-be").
TEST(TextFile, Utf16IsReadByItsMark) {
  EXPECT_EQ(*as_text("\xFF\xFE\xE9\0\xE5\x65\x3D\xD8\x00\xDE\n\0"s, "f"), "é日😀\n");
  EXPECT_EQ(*as_text("\xFE\xFF\0\xE9\x65\xE5\xD8\x3D\xDE\x00\0\n"s, "f"), "é日😀\n");
  EXPECT_EQ(*as_text("\xFF\xFE"s, "f"), "");
  EXPECT_EQ(message("\xFF\xFEh\0i"s), "f: found UTF-16 of an odd number of bytes, needed two a unit");
  EXPECT_EQ(message("\xFF\xFEh\0\x3D\xD8"s), "f: byte 5: found 0xd83d, half of a pair of UTF-16 without the other");
  EXPECT_EQ(message("\xFF\xFE\x3D\xD8h\0"s), "f: byte 3: found 0xd83d, half of a pair of UTF-16 without the other");
  EXPECT_EQ(message("\xFE\xFF\xDE\0\0h"s), "f: byte 3: found 0xde00, half of a pair of UTF-16 without the other");
}

TEST(TextFile, WhatHasANulIsNoText) {
  const std::string without = "f: found UTF-16 without a mark, needed UTF-8, or UTF-16 with its mark in front";
  EXPECT_EQ(message("h\0i\0"s), without);
  EXPECT_EQ(message("\0h\0i"s), without);
  EXPECT_EQ(message("h\0i\0\xE9\0"s), without) << "which is not UTF-8 either";
  EXPECT_EQ(message("GGUF\n\3\0\0\0"s), "f: byte 7 (line 2): found 0x00, which no text has");
  EXPECT_EQ(message("\xFF\xFEh\0\0\0"s), "f: byte 2 (line 1): found 0x00, which no text has");
}

TEST(TextFile, LineEndsOfOtherSystems) {
  EXPECT_EQ(with_plain_line_ends("a\r\nb\r\n\r\n"), "a\nb\n\n");
  EXPECT_EQ(with_plain_line_ends("a\rb\n\r\r\n\r"), "a\rb\n\r\n\r") << "only those of lines";
}

TEST(TextFile, TheFirstByteThatIsNotUtf8IsNamed) {
  const std::string latin = "; the text looks like Latin-1 (ISO-8859-1), needed UTF-8 (iconv -f ISO-8859-1 -t UTF-8)";
  EXPECT_EQ(message("caf\xE9"), "f: byte 4 (line 1): found 0xe9, which is not UTF-8 there" + latin);
  EXPECT_EQ(message("gr\xF6\xDF"
                    "er"),
            "f: byte 3 (line 1): found 0xf6, which is not UTF-8 there" + latin);
  EXPECT_THAT(message("caf\xE9 \x93quoted\x94"), testing::HasSubstr("looks like Latin-1 (CP1252)"));
  EXPECT_EQ(message("caf\xE9 \xC3\xA9"), "f: byte 4 (line 1): found 0xe9, which is not UTF-8 there");
  EXPECT_EQ(message("a\xE9\x01"), "f: byte 2 (line 1): found 0xe9, which is not UTF-8 there");
  EXPECT_EQ(message("a\nb\n\xC0\x80"), "f: byte 5 (line 3): found 0xc0, which is not UTF-8 there");
  EXPECT_EQ(message("\xED\xA0\x80"), "f: byte 1 (line 1): found 0xed, which is not UTF-8 there");
  EXPECT_EQ(message("\xEF\xBB\xBF\xFF"), "f: byte 4 (line 1): found 0xff, which is not UTF-8 there");
}

TEST(TextFile, AFileIsReadSo) {
  const std::string path =
      testing::TempDir() + "/text-file-" + std::to_string(::testing::UnitTest::GetInstance()->random_seed());
  std::ofstream(path, std::ios::binary) << "\xEF\xBB\xBFhello";
  EXPECT_EQ(*read_text_file(path), "hello");
  EXPECT_FALSE(read_text_file(path, 7));
  std::ofstream(path, std::ios::binary) << "\xFF";
  EXPECT_EQ(read_text_file(path).error().message, path + ": byte 1 (line 1): found 0xff, which is not UTF-8 there");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace llada
