// The live view on a scripted run: what it repaints and what it counts.
#include "cli/live_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "cli/process.h"
#include "cli/screen.h"

namespace llada::cli {
namespace {

using test::run_llada;
using test::run_llada_on_terminal;
using test::tiny_model;

std::vector<int> widths(const std::vector<FrameLine>& lines) {
  std::vector<int> out;
  for (const FrameLine& line : lines) out.push_back(line.columns);
  return out;
}

TEST(Repaint, LeavesOnlyTheLastPicture) {
  test::Screen screen;
  screen.feed("$ llada run\r\n");
  std::vector<int> painted;
  const std::vector<std::vector<FrameLine>> pictures = {
      {{"aaaa", 4}, {"bb", 2}, {"status", 6}}, {{"a", 1}, {"cc", 2}, {"dd", 2}, {"st", 2}}, {{"z", 1}, {"s", 1}}};
  for (const auto& picture : pictures) {
    screen.feed(repaint(picture, painted, 80));
    painted = widths(picture);
    std::string expected = "$ llada run\n";
    for (const FrameLine& line : picture) expected += line.text + '\n';
    EXPECT_EQ(screen.text(), expected);
  }
  screen.feed(repaint({}, painted, 80));
  screen.feed("answer\r\n");
  EXPECT_EQ(screen.text(), "$ llada run\nanswer\n");
}

TEST(Repaint, CountsTheLinesThatANarrowedTerminalWrapped) {
  const std::vector<int> painted = {70, 10, 0};
  // 70 columns became three lines of 30, so the picture stands five lines tall.
  EXPECT_NE(repaint({}, painted, 30).find("\x1b[4A"), std::string::npos);
}

TEST(Repaint, IsOneSynchronizedUpdate) {
  const std::vector<FrameLine> picture = {{"x", 1}};
  const std::string bytes = repaint(picture, {}, 80);
  EXPECT_TRUE(bytes.starts_with("\x1b[?2026h"));
  EXPECT_TRUE(bytes.ends_with("\x1b[?2026l"));
  EXPECT_EQ(bytes.find("\x1b[2J"), std::string::npos);  // clearing first is what flickers
}

std::vector<std::string> arguments() {
  return {"run",          "-m", tiny_model(), "-p", "Sort the numbers from smallest to largest: 38 41 6 51 3",
          "--gen-length", "24", "--steps",    "4",  "--preset-decode",
          "exact"};
}

std::vector<std::string> with(std::vector<std::string> list, const std::vector<std::string>& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

const std::vector<std::string> kXterm = {"TERM=xterm-256color", "NO_COLOR"};

TEST(Live, EndsWithThePlainAnswerAndTheStats) {
  LLADA_NEEDS_TERMINAL();
  const auto plain = run_llada(arguments());
  ASSERT_EQ(plain.status, 0) << plain.err;
  const auto live = run_llada_on_terminal(with(arguments(), {"--live"}), {.environment = kXterm});
  EXPECT_EQ(live.status, 0);
  EXPECT_NE(live.out.find("\x1b[?2026h"), std::string::npos);
  EXPECT_NE(live.out.find("\x1b[1;38;5;"), std::string::npos);
  EXPECT_NE(live.out.find("step 1 "), std::string::npos);
  test::Screen screen;
  screen.feed(live.out);
  EXPECT_TRUE(screen.cursor_visible());
  EXPECT_EQ(screen.text().find(plain.out), 0u) << screen.text();
  EXPECT_EQ(std::ranges::count(screen.text(), '\n'), 2);  // the answer and the stats
  EXPECT_NE(screen.text().find("tokens/s (measured)"), std::string::npos);
}

TEST(Live, WhatTheFormFixedIsUnderlined) {
  LLADA_NEEDS_TERMINAL();
  const auto underlined = [](const std::vector<std::string>& more) {
    return run_llada_on_terminal(with(with(arguments(), more), {"--live"}), {.environment = kXterm})
               .out.find("\x1b[4m") != std::string::npos;
  };
  EXPECT_TRUE(underlined({"--template", "Sorted: <int> and <int>"}));
  EXPECT_FALSE(underlined({}));
}

TEST(Live, EveryPictureFitsASmallTerminal) {
  LLADA_NEEDS_TERMINAL();
  const auto live =
      run_llada_on_terminal(with(arguments(), {"--live"}), {.environment = kXterm, .columns = 12, .rows = 5});
  EXPECT_EQ(live.status, 0);
  // No picture is taller than four lines, so the cursor never climbs further than three.
  for (size_t at = live.out.find("\x1b["); at != std::string::npos; at = live.out.find("\x1b[", at + 1)) {
    const size_t end = live.out.find_first_not_of("0123456789", at + 2);
    if (live.out[end] == 'A') {
      EXPECT_LE(std::stoi(live.out.substr(at + 2, end - at - 2)), 3);
    }
  }
}

TEST(Live, NoColorKeepsRepainting) {
  LLADA_NEEDS_TERMINAL();
  const auto live = run_llada_on_terminal(with(arguments(), {"--live"}), {.environment = {"TERM=xterm", "NO_COLOR=1"}});
  EXPECT_EQ(live.status, 0);
  EXPECT_NE(live.out.find("\x1b[?2026h"), std::string::npos);
  EXPECT_EQ(live.out.find("\x1b[1;"), std::string::npos);
  EXPECT_EQ(live.out.find("\x1b[2m"), std::string::npos);
}

TEST(Live, DumbTerminalAndPipeGetPlainText) {
  LLADA_NEEDS_TERMINAL();
  const auto dumb = run_llada_on_terminal(with(arguments(), {"--live"}), {.environment = {"TERM=dumb"}});
  EXPECT_EQ(dumb.status, 0);
  EXPECT_EQ(dumb.out.find('\x1b'), std::string::npos);
  const auto piped = run_llada(with(arguments(), {"--live"}), {.environment = kXterm});
  EXPECT_EQ(piped.status, 0);
  EXPECT_EQ((piped.out + piped.err).find('\x1b'), std::string::npos);
  EXPECT_EQ(piped.out, run_llada(arguments()).out);
}

TEST(Live, ATerminalOfAnotherCharacterSetGetsPlainText) {
  LLADA_NEEDS_TERMINAL();
  const auto out = [](std::vector<std::string> environment) {
    environment.push_back("TERM=xterm");
    return run_llada_on_terminal(with(arguments(), {"--live"}), {.environment = std::move(environment)}).out;
  };
  constexpr char kEscape = '\x1b';
  EXPECT_EQ(out({"LC_ALL=C", "LANG=C.UTF-8"}).find(kEscape), std::string::npos) << "LC_ALL comes first";
  EXPECT_EQ(out({"LC_ALL", "LC_CTYPE", "LANG=de_DE.ISO-8859-1"}).find(kEscape), std::string::npos);
  EXPECT_NE(out({"LC_ALL=en_US.utf8"}).find(kEscape), std::string::npos);
  EXPECT_NE(out({"LC_ALL", "LC_CTYPE", "LANG"}).find(kEscape), std::string::npos) << "nothing is said";
}

TEST(Live, ThePauseIsNotCounted) {
  LLADA_NEEDS_TERMINAL();
  const auto begin = std::chrono::steady_clock::now();
  const auto live =
      run_llada_on_terminal(with(arguments(), {"--live", "--live-delay", "250", "-v"}), {.environment = kXterm});
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ASSERT_EQ(live.status, 0);
  test::Screen screen;
  screen.feed(live.out);
  // "N tokens in F forwards ..." and "M ms per step": decoding and pausing both fit into the wall clock, disjoint.
  const std::string text = screen.text();
  const double forwards = std::stod(text.substr(text.find(" tokens in ") + 11));
  const size_t ms_end = text.find(" ms per step");
  ASSERT_NE(ms_end, std::string::npos) << text;
  const double ms = std::stod(text.substr(text.rfind(' ', ms_end - 1) + 1));
  EXPECT_GT(forwards, 0);
  EXPECT_LT(forwards * (ms + 250) / 1e3, wall);
}

TEST(Live, InfillShowsTheTextAroundTheGaps) {
  LLADA_NEEDS_TERMINAL();
  const auto live = run_llada_on_terminal(
      {"infill", "-m", tiny_model(), "--text", "There are <mask:3> rings", "--live"}, {.environment = kXterm});
  EXPECT_EQ(live.status, 0);
  const size_t first = live.out.find("\x1b[?2026l");
  ASSERT_NE(first, std::string::npos);
  const std::string picture = live.out.substr(0, first);
  EXPECT_NE(picture.find("There are"), std::string::npos);
  EXPECT_NE(picture.find("rings"), std::string::npos);
  EXPECT_NE(picture.find("\u2592"), std::string::npos);
}

TEST(Live, AnInterruptGivesTheCursorBackAndPrintsWhatIsDecided) {
  LLADA_NEEDS_TERMINAL();
  const auto live =
      run_llada_on_terminal({"run", "-m", tiny_model(), "-p", "Write as JSON: Eric is 31 years old.", "--gen-length",
                             "96", "--preset-decode", "exact", "--live", "--live-delay", "50"},
                            {.environment = kXterm, .interrupt_after = "step 2 "});
  EXPECT_EQ(live.status, 130);
  test::Screen screen;
  screen.feed(live.out);
  EXPECT_TRUE(screen.cursor_visible());
  EXPECT_NE(screen.text().find("tokens/s (measured)"), std::string::npos) << screen.text();
  const std::string text = screen.text();
  EXPECT_NE(text.find("\ninterrupted"), std::string::npos) << text;
  EXPECT_EQ(text.find("\u2591") != std::string::npos, text.find("; \u2591 was not decided") != std::string::npos)
      << "holes are shown and explained: " << text;
}

TEST(Live, IsTheDefaultOfATerminalAndCanBeSwitchedOff) {
  LLADA_NEEDS_TERMINAL();
  EXPECT_NE(run_llada_on_terminal(arguments(), {.environment = kXterm}).out.find("\x1b[?2026h"), std::string::npos);
  for (const char* plain : {"--no-live", "--quiet", "--json"}) {
    const auto off = run_llada_on_terminal(with(arguments(), {plain}), {.environment = kXterm});
    EXPECT_EQ(off.status, 0);
    EXPECT_EQ(off.out.find('\x1b'), std::string::npos) << plain;
  }
}

}  // namespace
}  // namespace llada::cli
