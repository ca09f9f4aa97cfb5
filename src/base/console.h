// Terminals and signals: console_posix.cc or console_windows.cc, of which CMake takes one. Signals are numbers of
// <csignal>; where a system has no signals, a key or the end of a session stands for SIGINT or SIGTERM.
#pragma once
#include <cstdint>
#include <string>

namespace llada::os {

// For a program that talks to a terminal, once: its texts are UTF-8, line ends are bytes like others, and escape
// sequences work. Streams that are closed from the start stay so, whatever the program opens.
void prepare_streams();

bool is_terminal(int fd);
struct WindowSize {
  int columns = 0, rows = 0;  // 0: the system does not tell
};
WindowSize window_size(int fd);
std::string terminal_kind();  // as TERM names it; "dumb": without escape sequences

// Typed text is not shown until restore_input(), and comes without waiting for the end of its line. False where fd is
// no terminal, or this process is in the background. One at a time.
bool silence_input(int fd);
void restore_input() noexcept;  // may be called in a handler

using SignalHandler = void (*)(int number);
void ignore_write_signals();                // a failed write is an error of the write, and no signal
void on_interrupts(SignalHandler handler);  // SIGINT and SIGTERM, each time
void on_resizes(SignalHandler handler);     // another window size, or the program is in the foreground again
void default_signals();                     // as before the two
void on_end(SignalHandler handler);         // SIGINT, SIGTERM and the terminal's end, once, where these are not ignored
void end_by_signal(int number) noexcept;    // in the handler of on_end(): the process ends as if there were none

// A wait for input that a handler can end. open_wakes() is called before, with no other thread waiting.
void open_wakes();
void close_wakes();
void wake() noexcept;  // may be called in a handler
enum class Event : uint8_t { readable, woken, failed };
Event wait_event(int fd);

// A server hears of signals on a thread of its own. hold_signals() is called before any thread starts.
void hold_signals();
void release_signals();
enum class Held : uint8_t { none, end, reload };
Held next_held(int milliseconds);  // the next signal, waited for so long at most
void end_by_held();                // the process ends by the last signal, as if it had not been held

// Turns a failed read of a mapped file, which may shrink or whose disk may fail, into an ordinary end: one line that
// names the file, and exit status 1. For the whole process, once. Files that are being written are not harmed: they
// have no name yet (base/file.h).
void report_mapping_faults();

}  // namespace llada::os
