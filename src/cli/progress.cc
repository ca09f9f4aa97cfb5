#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/os.h"
#include "cli/terminal.h"

namespace llada::cli {

std::string progress_bar(std::string_view title, int percent, std::string_view detail, int columns) {
  // The bar gives way to the words, which say more.
  constexpr int kBarColumns = 20, kLeastBarColumns = 5;
  const int room = std::max(columns - 1, 0);
  const std::string words = fmt::format(" {:3} %  {}", percent, detail);
  const int bar = std::min(room - static_cast<int>(title.size() + words.size()) - 3, kBarColumns);
  std::string line(title);
  if (bar >= kLeastBarColumns) {
    const int filled = percent * bar / 100;
    line += fmt::format(" [{:#<{}}{:.<{}}]", "", filled, "", bar - filled);
  }
  line += words;
  line.resize(std::min(line.size(), static_cast<size_t>(room)));
  return line;
}

std::string duration_text(double seconds) {
  return seconds < 90 ? fmt::format("about {:.0f} s", seconds) : fmt::format("about {:.0f} min", seconds / 60);
}

std::string time_left_text(double seconds) { return duration_text(seconds) + " left"; }

// A log does not need to hear of work that is over at once.
constexpr std::chrono::seconds kQuiet{2};

Progress::Progress(std::string title) : title_(std::move(title)), terminal_(can_repaint(os::kStderr)) {}

Progress::~Progress() {
  if (painted_) note("\r\x1b[K");
}

void Progress::update(double fraction, std::string_view detail) {
  const int percent = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * 100);
  if (terminal_) {
    // The text beside the bar may change more often than a percent, and need not be read faster than this.
    const auto now = std::chrono::steady_clock::now();
    if (percent == percent_ && (detail == shown_ || now - painted_at_ < std::chrono::milliseconds(250))) return;
    note(
        fmt::format("\r{}\x1b[K", progress_bar(title_, percent, one_line(detail), terminal_size(os::kStderr).columns)));
    painted_ = true;
    painted_at_ = now;
    shown_ = detail;
  } else if (percent / 10 > std::max(percent_, 0) / 10 && std::chrono::steady_clock::now() - begin_ > kQuiet) {
    note(fmt::format("{}: {} %  {}\n", title_, percent / 10 * 10, one_line(detail)));
  }
  percent_ = percent;
}

void Progress::say(std::string_view line) {
  note(fmt::format("{}{}\n", painted_ ? "\r\x1b[K" : "", line));
  painted_ = false;
  if (terminal_) percent_ = -1;  // paint again
}

void Progress::hide() {
  if (!painted_) return;
  note("\r\x1b[K");
  painted_ = false;
  percent_ = -1;
}

}  // namespace llada::cli
