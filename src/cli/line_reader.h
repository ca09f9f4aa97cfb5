// Where a conversation's lines come from: a terminal with an editor (libedit, where the build has it), or anything that
// can be read.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"

namespace llada::cli {

struct Line {
  enum class Kind {
    text,
    interrupted,  // Ctrl-C where nothing was typed
    end,          // of the input, or Ctrl-D where nothing was typed
    signal,       // SIGTERM, or SIGINT where stdin is no terminal: the conversation ends
  };
  Kind kind = Kind::text;
  std::string text = {};  // without its end; a paste of several lines holds them all
};

class LineReader {
 public:
  virtual ~LineReader() = default;
  // Waits for a line, behind `prompt` where a person types. An InterruptGuard must be alive.
  virtual Line next(std::string_view prompt) = 0;
  // Keeps a message for the arrow keys, and in the history's file where one was named.
  virtual void remember(const std::string&) {}
};

// interactive: stdin and stderr are a terminal. history: a file of earlier messages, which is read and added to; empty:
// none. A history that cannot be read or written is a note, not an error.
std::unique_ptr<LineReader> make_line_reader(bool interactive, const std::string& history);

// The editor; null where the build or the terminal has none.
std::unique_ptr<LineReader> make_line_editor(const std::string& history);

// $XDG_STATE_HOME/llada/history or ~/.local/state/llada/history; empty where neither variable is set.
std::string history_path();

}  // namespace llada::cli
