// Terminals: abilities, size, output to stdout and stderr, and SIGINT and SIGTERM, which end a run early.
#pragma once
#include <chrono>
#include <string>
#include <string_view>

#include "base/error.h"

namespace llada::cli {

struct TerminalSize {
  int columns = 80, rows = 24;
};

bool is_terminal(int fd);
// A terminal that understands cursor movement (TERM is set and not "dumb") and UTF-8 (unless the locale says
// otherwise).
bool can_repaint(int fd);
bool wants_color();  // NO_COLOR is unset or empty (no-color.org), and TERM is not vt100 ... or ansi
TerminalSize terminal_size(int fd);
int output_width();  // columns of stdout; 80 where that is no terminal

// Writes the whole text to stdout, unbuffered. A reader that went away (EPIPE) is an error without a message, as nobody
// is left to read one. Every other failure (a full disk) has one.
Status print(std::string_view text);

// Writes to stderr; failures are ignored.
void note(std::string_view text);

// Text from a model as valid UTF-8. On a terminal carriage returns go, and control characters other than newline and
// tab become U+FFFD, so that a model cannot move the cursor or change the title.
std::string printable_text(std::string_view bytes, bool terminal);

// One line for an error message: control characters as \xNN, invalid UTF-8 as U+FFFD.
std::string one_line(std::string_view text);

// Lets SIGINT, SIGTERM and SIGHUP remove unfinished files (AtomicFile) before they end the program. For main(), once.
void clean_up_on_signals();

// The events that wake a wait for input.
enum class Wake { readable, signal, resized };

// While it lives, SIGINT and SIGTERM only set signal_number(), so that a run can end between two steps. The signal
// after `patience` of them shows the cursor and ends the process at once. One at a time.
class InterruptGuard {
 public:
  explicit InterruptGuard(int patience = 1);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static int signal_number();  // 0: none came
  // Waits for work of an engine and cancels it when a signal comes; returns signal_number().
  template <class Handle>
  static int wait_for(Handle& handle) {
    while (!handle.wait_for(std::chrono::milliseconds(100)))
      if (signal_number() != 0) handle.cancel();
    return signal_number();
  }
  static bool wait_readable(int fd);          // false when a signal came first; a guard must be alive
  static Wake wait(int fd);                   // resized: a new window size, or SIGCONT
  static void clear();                        // as if no signal had come: a conversation goes on after an interrupt
  static void cursor_is_hidden(bool hidden);  // then the last signal shows it

 private:
  const int patience_;
};

// While it lives, typed text is not echoed, which would tear a picture that is painted in place; the next reader gets
// it. Does nothing where fd is no terminal, or this process is in the background. One at a time.
class QuietInput {
 public:
  explicit QuietInput(int fd);
  ~QuietInput();
  QuietInput(const QuietInput&) = delete;
  QuietInput& operator=(const QuietInput&) = delete;

 private:
  bool changed_ = false;
};

}  // namespace llada::cli
