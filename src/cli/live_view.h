// Repaints a canvas in place while it is denoised. The region is as tall as its picture. Every repaint goes out as one
// write between the marks of synchronized output (DEC private mode 2026), line by line without clearing first. So
// nothing flickers on terminals that do not know the mode either.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "cli/render_frame.h"
#include "engine/session.h"

namespace llada::cli {

struct LiveOptions {
  int fd = 1;
  bool color = true;
  int delay_ms = 0;  // pause after every repaint, to follow a fast model with the eye
  bool infill = false;
  int64_t block_length = 0;  // for the block counter
  bool open_length = false;  // gen_length=auto: positions that no step has computed yet are not shown
};

class LiveView {
 public:
  LiveView(const Model& model, const LiveOptions& options);
  ~LiveView();  // as finish()
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

  Status show(const decode::StepEvent& event);

  // Takes the picture off the screen and gives the cursor back; the cursor stands where the picture began.
  Status finish();

  double seconds() const { return seconds_; }  // spent painting and pausing, not decoding

 private:
  void update_cells(const decode::StepEvent& event);
  FrameStatus status(const decode::StepEvent& event) const;

  const Model& model_;
  LiveOptions options_;
  std::vector<Cell> cells_;   // of positions [begin_, ...)
  size_t begin_ = 0;          // where generation starts; 0 for infilling, where the text around the gaps is shown too
  std::vector<int> painted_;  // widths of the lines on the screen
  bool cursor_hidden_ = false;
  std::chrono::steady_clock::time_point start_;
  double seconds_ = 0;
};

// The bytes that paint `lines` over a picture whose lines were `painted` columns wide; without lines they erase it.
// columns: of the terminal now.
std::string repaint(std::span<const FrameLine> lines, std::span<const int> painted, int columns);

}  // namespace llada::cli
