// Progress of long work on stderr: a bar where that is a terminal. Elsewhere, once the work has taken two seconds, a
// line at every tenth.
#pragma once
#include <chrono>
#include <string>
#include <string_view>

namespace llada::cli {

class Progress {
 public:
  explicit Progress(std::string title);
  ~Progress();  // takes an unfinished bar off the screen
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(double fraction, std::string_view what);
  void say(std::string_view line);  // a line that stays, above the bar
  void hide();                      // before others write where the bar is; the next update paints it again

 private:
  std::string title_;
  bool terminal_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool painted_ = false;
  int percent_ = -1;
  std::string shown_;
  std::chrono::steady_clock::time_point painted_at_;
};

std::string duration_text(double seconds);   // "about 40 s", "about 12 min"
std::string time_left_text(double seconds);  // "about 40 s left"

// The line at `percent` of a bar for a terminal of that many columns, narrower than it: the bar shrinks, and is left
// out, where `what` needs its room.
std::string progress_bar(std::string_view title, int percent, std::string_view what, int columns);

}  // namespace llada::cli
