// The live view on a scripted run: what it repaints and what it counts.
#include "cli/live_view.h"

#include <chrono>

#include "cli/process.h"

namespace llada::cli {
namespace {

using namespace test;

std::vector<int> widths(const std::vector<FrameLine>& lines) {
  std::vector<int> out;
  for (const FrameLine& line : lines) out.push_back(line.columns);
  return out;
}

TEST(Repaint, LeavesOnlyTheLastPicture) {
  TerminalScreen screen(80, 24);
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
  EXPECT_THAT(repaint({}, painted, 30), HasSubstr("\x1b[4A"));
}

TEST(Repaint, IsOneSynchronizedUpdate) {
  const std::vector<FrameLine> picture = {{"x", 1}};
  const std::string bytes = repaint(picture, {}, 80);
  EXPECT_TRUE(bytes.starts_with("\x1b[?2026h"));
  EXPECT_TRUE(bytes.ends_with("\x1b[?2026l"));
  EXPECT_THAT(bytes, Not(HasSubstr("\x1b[2J")));  // clearing first is what flickers
}

Words arguments() {
  return with({"run", "-m", tiny_model(), "-p", "Sort the numbers from smallest to largest: 38 41 6 51 3"},
              split("--gen-length 24 --steps 4 --preset-decode exact"));
}
// What the program shows on a terminal that has colours.
ProcessResult on_terminal(const Words& words, const TerminalInput& input = {}) {
  TerminalInput xterm = input;
  if (xterm.environment.empty()) xterm.environment = {"TERM=xterm-256color", "NO_COLOR"};
  return run_llada_on_terminal(words, xterm);
}
TerminalScreen screen_of(const std::string& bytes) {
  TerminalScreen screen(80, 24);
  screen.feed(bytes);
  return screen;
}

TEST(Live, EndsWithThePlainAnswerAndTheStats) {
  LLADA_NEEDS_TERMINAL();
  const auto plain = done(arguments());
  const auto live = on_terminal(with(arguments(), {"--live"}));
  EXPECT_EQ(live.status, 0);
  EXPECT_THAT(live.out, HasSubstr("\x1b[?2026h"));
  EXPECT_THAT(live.out, HasSubstr("\x1b[1;38;5;"));
  EXPECT_THAT(live.out, HasSubstr("step 1 "));
  const TerminalScreen screen = screen_of(live.out);
  EXPECT_TRUE(screen.cursor_visible());
  EXPECT_THAT(screen.text(), StartsWith(plain.out));
  EXPECT_EQ(std::ranges::count(screen.text(), '\n'), 2);  // the answer and the stats
  EXPECT_THAT(screen.text(), HasSubstr("tokens/s (measured)"));
}

TEST(Live, WhatTheFormFixedIsUnderlined) {
  LLADA_NEEDS_TERMINAL();
  const auto underlined = [](const std::vector<std::string>& more) {
    return on_terminal(with(with(arguments(), more), {"--live"})).out.find("\x1b[4m") != std::string::npos;
  };
  EXPECT_TRUE(underlined({"--template", "Sorted: <int> and <int>"}));
  EXPECT_FALSE(underlined({}));
}

TEST(Live, EveryPictureFitsASmallTerminal) {
  LLADA_NEEDS_TERMINAL();
  const auto live = on_terminal(with(arguments(), {"--live"}), {.columns = 12, .rows = 5});
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
  const auto live = on_terminal(with(arguments(), {"--live"}), {.environment = {"TERM=xterm", "NO_COLOR=1"}});
  EXPECT_EQ(live.status, 0);
  EXPECT_THAT(live.out, HasSubstr("\x1b[?2026h"));
  EXPECT_THAT(live.out, Not(HasSubstr("\x1b[1;")));
  EXPECT_THAT(live.out, Not(HasSubstr("\x1b[2m")));
}

TEST(Live, DumbTerminalAndPipeGetPlainText) {
  LLADA_NEEDS_TERMINAL();
  const auto dumb = on_terminal(with(arguments(), {"--live"}), {.environment = {"TERM=dumb"}});
  EXPECT_EQ(dumb.status, 0);
  EXPECT_EQ(dumb.out.find('\x1b'), std::string::npos);
  const auto piped = done(with(arguments(), {"--live"}), {.environment = {"TERM=xterm-256color", "NO_COLOR"}});
  EXPECT_EQ((piped.out + piped.err).find('\x1b'), std::string::npos);
  EXPECT_EQ(piped.out, run_llada(arguments()).out);
}

TEST(Live, ATerminalOfAnotherCharacterSetGetsPlainText) {
  LLADA_NEEDS_TERMINAL();
  const auto out = [](std::vector<std::string> environment) {
    environment.push_back("TERM=xterm");
    return on_terminal(with(arguments(), {"--live"}), {.environment = std::move(environment)}).out;
  };
  constexpr const char* kEscape = "\x1b";
  EXPECT_THAT(out({"LC_ALL=C", "LANG=C.UTF-8"}), Not(HasSubstr(kEscape))) << "LC_ALL comes first";
  EXPECT_THAT(out({"LC_ALL", "LC_CTYPE", "LANG=de_DE.ISO-8859-1"}), Not(HasSubstr(kEscape)));
  EXPECT_THAT(out({"LC_ALL=en_US.utf8"}), HasSubstr(kEscape));
  EXPECT_THAT(out({"LC_ALL", "LC_CTYPE", "LANG"}), HasSubstr(kEscape)) << "nothing is said";
}

TEST(Live, ThePauseIsNotCounted) {
  LLADA_NEEDS_TERMINAL();
  const auto begin = std::chrono::steady_clock::now();
  const auto live = on_terminal(with(arguments(), {"--live", "--live-delay", "250", "-v"}));
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ASSERT_EQ(live.status, 0);
  // "N tokens in F forwards ..." and "M ms per step": decoding and pausing both fit into the wall clock, disjoint.
  const std::string text = screen_of(live.out).text();
  const double forwards = std::stod(text.substr(text.find(" tokens in ") + 11));
  const size_t ms_end = text.find(" ms per step");
  ASSERT_NE(ms_end, std::string::npos) << text;
  const double ms = std::stod(text.substr(text.rfind(' ', ms_end - 1) + 1));
  EXPECT_GT(forwards, 0);
  EXPECT_LT(forwards * (ms + 250) / 1e3, wall);
}

TEST(Live, InfillShowsTheTextAroundTheGaps) {
  LLADA_NEEDS_TERMINAL();
  const auto live = on_terminal({"infill", "-m", tiny_model(), "--text", "There are <mask:3> rings", "--live"});
  EXPECT_EQ(live.status, 0);
  const size_t first = live.out.find("\x1b[?2026l");
  ASSERT_NE(first, std::string::npos);
  const std::string picture = live.out.substr(0, first);
  EXPECT_THAT(picture, HasSubstr("There are"));
  EXPECT_THAT(picture, HasSubstr("rings"));
  EXPECT_THAT(picture, HasSubstr("\u2592"));
}

TEST(Live, AnInterruptGivesTheCursorBackAndPrintsWhatIsDecided) {
  LLADA_NEEDS_TERMINAL();
  const auto live = on_terminal({"run", "-m", tiny_model(), "-p", "Write as JSON: Eric is 31 years old.",
                                 "--gen-length", "96", "--preset-decode", "exact", "--live", "--live-delay", "50"},
                                {.interrupt_after = "step 2 "});
  EXPECT_EQ(live.status, 130);
  const TerminalScreen screen = screen_of(live.out);
  EXPECT_TRUE(screen.cursor_visible());
  const std::string text = screen.text();
  EXPECT_THAT(text, HasSubstr("tokens/s (measured)"));
  EXPECT_THAT(text, HasSubstr("\ninterrupted"));
  EXPECT_EQ(text.find("\u2591") != std::string::npos, text.find("; \u2591 was not decided") != std::string::npos)
      << "holes are shown and explained: " << text;
}

TEST(Live, IsTheDefaultOfATerminalAndCanBeSwitchedOff) {
  LLADA_NEEDS_TERMINAL();
  EXPECT_THAT(on_terminal(arguments()).out, HasSubstr("\x1b[?2026h"));
  for (const char* plain : {"--no-live", "--quiet", "--json"}) {
    const auto off = on_terminal(with(arguments(), {plain}));
    EXPECT_EQ(off.status, 0);
    EXPECT_EQ(off.out.find('\x1b'), std::string::npos) << plain;
  }
}

}  // namespace
}  // namespace llada::cli
