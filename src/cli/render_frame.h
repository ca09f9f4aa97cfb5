// One picture of a canvas for a terminal: a pure function of its data. How it gets onto the screen is live_view.h.
// Words: cell = one canvas position; settled = a token of a block that is done. Deliberately not done: word wrapping
// (text would jump as words grow), right-to-left layout.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llada::cli {

enum class CellState {
  given,    // prompt or template text
  waiting,  // masked, in a later block
  masked,   // masked, in the current block
  fresh,    // decided by the last step
  decided,  // decided earlier, the block is still worked on
  settled,
  end,  // an end token or padding behind the answer
};

struct Cell {
  CellState state = CellState::waiting;
  std::string_view bytes = {};  // of a token; may be part of a character
  double confidence = 0;
  bool by_form = false;  // the form of the answer left no choice
};

struct FrameStatus {
  int64_t block = 0, blocks = 0;  // from 1; blocks 0: not shown
  int64_t step = 0;               // forwards so far
  int64_t committed = 0, total = 0;
  double tokens_per_s = 0;
};

struct FrameOptions {
  int columns = 80, rows = 24;  // of the terminal
  bool color = true;
  size_t focus = 0;  // where the canvas is taller than the screen, this cell stays in view
};

struct FrameLine {
  std::string text;  // with colours, without a newline; ends in the terminal's default colours
  int columns = 0;
};

// The canvas and, below it, the status line; at most options.rows - 1 lines, none as wide as the terminal.
std::vector<FrameLine> render_frame(std::span<const Cell> cells, const FrameStatus& status,
                                    const FrameOptions& options);

// Terminal columns of a character: 0 (combining), 1 or 2.
int display_width(char32_t code_point);

}  // namespace llada::cli
