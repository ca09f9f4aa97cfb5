// One frame of the live view: colours, states, widths, broken UTF-8.
#include "cli/render_frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "text/utf8.h"

namespace llada::cli {
namespace {

Cell decided(std::string_view bytes, double confidence = 1) { return {CellState::settled, bytes, confidence}; }

std::vector<std::string> plain_lines(std::span<const Cell> cells, int columns, int rows = 24, size_t focus = 0) {
  std::vector<std::string> out;
  for (const FrameLine& line :
       render_frame(cells, {}, {.columns = columns, .rows = rows, .color = false, .focus = focus}))
    out.push_back(line.text);
  out.pop_back();  // the status line
  return out;
}

using Lines = std::vector<std::string>;

TEST(RenderFrame, WrapsAtTheLastColumnButOne) {
  const std::vector<Cell> cells = {decided("abcde"), decided("fgh")};
  EXPECT_EQ(plain_lines(cells, 5), (Lines{"abcd", "efgh"}));
  EXPECT_EQ(plain_lines(cells, 80), (Lines{"abcdefgh"}));
}

TEST(RenderFrame, MasksAndEndsHaveTheirMarks) {
  const std::vector<Cell> cells = {
      decided("ok"), {CellState::masked}, {CellState::waiting}, {CellState::end, "<|eot|>"}};
  EXPECT_EQ(plain_lines(cells, 80), (Lines{"ok\u2592\u2591\u00b7"}));
}

TEST(RenderFrame, WideAndCombiningCharactersCountAsTheyShow) {
  EXPECT_EQ(display_width(U'a'), 1);
  EXPECT_EQ(display_width(U'\u4f60'), 2);
  EXPECT_EQ(display_width(U'\u0301'), 0);
  EXPECT_EQ(display_width(U'\U0001F600'), 2);
  // Three columns hold one wide character and no half of a second one.
  const std::vector<Cell> cells = {decided("\u4f60\u597d"), decided("e\u0301x")};
  EXPECT_EQ(plain_lines(cells, 4), (Lines{"\u4f60", "\u597de\u0301", "x"}));
}

TEST(RenderFrame, ACharacterMayReachAcrossTokens) {
  const std::string_view euro = "\u20ac";
  const std::vector<Cell> whole = {decided(euro.substr(0, 1)), decided(euro.substr(1, 1)), decided(euro.substr(2))};
  EXPECT_EQ(plain_lines(whole, 80), (Lines{"\u20ac"}));
  const std::vector<Cell> torn = {decided(euro.substr(0, 2)), {CellState::masked}, decided(euro.substr(2))};
  EXPECT_EQ(plain_lines(torn, 80), (Lines{"\ufffd\u2592\ufffd"}));
}

TEST(RenderFrame, NothingInATokenSteersTheTerminal) {
  const std::vector<Cell> cells = {decided("a\x1b[2Jb\rc\x07\x7f"), decided("\td\n"), decided("\u009b1A")};
  EXPECT_EQ(plain_lines(cells, 80), (Lines{"a\ufffd[2Jbc\ufffd\ufffd   d", "\ufffd1A"}));
}

TEST(RenderFrame, ColorsFollowConfidenceAndState) {
  const auto text = [](CellState state, double confidence) {
    const std::vector<Cell> cells = {{state, "x", confidence}};
    return render_frame(cells, {}, {}).front().text;
  };
  EXPECT_EQ(text(CellState::decided, 0.49), "\x1b[38;5;203mx\x1b[0m");
  EXPECT_EQ(text(CellState::decided, 0.5), "\x1b[38;5;215mx\x1b[0m");
  EXPECT_EQ(text(CellState::decided, 0.9), "\x1b[38;5;77mx\x1b[0m");
  EXPECT_EQ(text(CellState::fresh, 0.95), "\x1b[1;38;5;77mx\x1b[0m");
  EXPECT_EQ(text(CellState::settled, 0.1), "x");
  EXPECT_EQ(text(CellState::given, 0.1), "x");
  EXPECT_EQ(text(CellState::masked, 0), "\x1b[2m\u2592\x1b[0m");
}

TEST(RenderFrame, WhatTheFormFixedIsUnderlined) {
  for (const CellState state : {CellState::fresh, CellState::decided, CellState::settled}) {
    const std::vector<Cell> cells = {{state, "x", 1, true}};
    EXPECT_EQ(render_frame(cells, {}, {}).front().text, "\x1b[4mx\x1b[0m");
  }
  const std::vector<Cell> masked = {{CellState::masked, "", 0, true}};
  EXPECT_EQ(render_frame(masked, {}, {}).front().text, "\x1b[2m\u2592\x1b[0m");
}

TEST(RenderFrame, ColorsDoNotLeakIntoTheNextLine) {
  const std::vector<Cell> cells = {{CellState::fresh, "abcdef", 0.2}};
  const auto lines = render_frame(cells, {}, {.columns = 4});
  ASSERT_EQ(lines.size(), 3u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(lines[i].text.starts_with("\x1b[1;38;5;203m")) << lines[i].text;
    EXPECT_TRUE(lines[i].text.ends_with("\x1b[0m")) << lines[i].text;
  }
}

TEST(RenderFrame, StatusLine) {
  const FrameStatus status{.block = 2, .blocks = 4, .step = 17, .committed = 45, .total = 128, .tokens_per_s = 812.4};
  EXPECT_EQ(render_frame({}, status, {.color = false}).back().text, "block 2/4  step 17  45/128 tokens  812 tokens/s");
  EXPECT_EQ(render_frame({}, status, {.columns = 11, .color = false}).back().text, "block 2/4 ");
  EXPECT_EQ(render_frame({}, {.step = 3, .total = 4}, {.color = false}).back().text, "step 3  0/4 tokens  0 tokens/s");
  EXPECT_EQ(
      render_frame({}, {.step = 3, .committed = 3, .total = 4, .tokens_per_s = 0.144}, {.color = false}).back().text,
      "step 3  3/4 tokens  0.14 tokens/s");
}

TEST(RenderFrame, ATallCanvasKeepsTheFocusInView) {
  std::vector<std::string> texts;
  for (int i = 0; i < 40; ++i) texts.push_back("line" + std::to_string(i) + "\n");
  std::vector<Cell> cells;
  for (const std::string& text : texts) cells.push_back(decided(text));
  for (size_t focus = 0; focus < cells.size(); ++focus) {
    const auto lines = plain_lines(cells, 80, 12, focus);
    EXPECT_EQ(lines.size(), 10u);
    EXPECT_EQ(std::ranges::count(lines, "line" + std::to_string(focus)), 1) << focus;
  }
}

// What a terminal would show of a line: characters without escape sequences, and their columns.
int columns_of(std::string_view text) {
  int columns = 0;
  while (!text.empty()) {
    if (text.starts_with("\x1b[")) {
      text.remove_prefix(text.find('m') + 1);
      continue;
    }
    const Utf8Unit unit = utf8_unit(text);
    EXPECT_TRUE(unit.valid);
    EXPECT_GE(unit.code_point, 0x20u);
    columns += display_width(unit.code_point);
    text.remove_prefix(static_cast<size_t>(unit.length));
  }
  return columns;
}

TEST(RenderFrame, AnyBytesFitAnyTerminal) {
  std::mt19937 random(7);
  const std::string alphabet = "ab \n\t\r\x1b[m\u4f60\u20ac\u0301\xff\xc3\x80";
  for (int round = 0; round < 500; ++round) {
    std::vector<std::string> texts(random() % 60);
    std::vector<Cell> cells;
    for (std::string& text : texts) {
      for (size_t n = random() % 6; n > 0; --n) text += alphabet[random() % alphabet.size()];
      cells.push_back({static_cast<CellState>(random() % 7), text, static_cast<double>(random() % 100) / 100});
    }
    const FrameOptions options{.columns = static_cast<int>(random() % 30) + 1,
                               .rows = static_cast<int>(random() % 12) + 1,
                               .color = random() % 2 == 0,
                               .focus = random() % 60};
    const auto lines = render_frame(cells, {.total = 60}, options);
    EXPECT_LE(static_cast<int>(lines.size()), std::max(options.rows - 1, 2));
    for (const FrameLine& line : lines) {
      EXPECT_EQ(columns_of(line.text), line.columns);
      EXPECT_LE(line.columns, std::max(options.columns - 1, 2));
    }
  }
}

}  // namespace
}  // namespace llada::cli
