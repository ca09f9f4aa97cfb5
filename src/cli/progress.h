// Progress of long work on stderr: a bar where that is a terminal. Elsewhere it is a line at every 10 %, once the work
// has taken two seconds.
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

  void update(double fraction, std::string_view detail);  // fraction: 0 to 1; detail: a text beside it
  void say(std::string_view line);                        // a line that stays, above the bar
  void hide();  // before others write where the bar is; the next update paints it again

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

// The line of a bar at `percent`, narrower than a terminal of that many columns. Where `detail` needs the room, the bar
// shrinks or is left out.
std::string progress_bar(std::string_view title, int percent, std::string_view detail, int columns);

}  // namespace llada::cli
