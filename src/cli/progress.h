// Progress of long work on stderr: a bar where that is a terminal. Elsewhere, once the work has taken two seconds, a
// line at every tenth.
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace llada::cli {

class Progress {
 public:
  explicit Progress(std::string title);
  ~Progress();  // takes an unfinished bar off the screen
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(double fraction, std::string_view what);
  void say(std::string_view line);  // a line that stays, above the bar

 private:
  std::string title_;
  bool terminal_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool painted_ = false;
  int percent_ = -1;
};

// The line at `percent` of a bar for a terminal of that many columns, narrower than it.
std::string progress_bar(std::string_view title, int percent, std::string_view what, int columns);

// Says `text` on stderr if it still lives after a second and stderr is a terminal, and takes it back at its
// end.
class SlowNote {
 public:
  explicit SlowNote(std::string text);
  ~SlowNote();
  SlowNote(const SlowNote&) = delete;
  SlowNote& operator=(const SlowNote&) = delete;

 private:
  void wait(const std::string& text);
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace llada::cli
