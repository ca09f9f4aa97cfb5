#include "cli/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "text/utf8.h"

namespace llada::cli {
namespace {

// Returns 0 or the errno of the failure.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {  // somebody made our end non-blocking
      struct pollfd ready = {fd, POLLOUT, 0};
      ::poll(&ready, 1, -1);
      continue;
    }
    if (n < 0) return errno;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

std::atomic<int> signal_seen = 0;
std::atomic<int> signals_left = 0;  // before the process ends at once
std::atomic<bool> resize_seen = false;
std::atomic<bool> cursor_hidden = false;
std::atomic<int> quiet_fd = -1;  // a terminal whose modes QuietInput has changed
struct termios loud_modes{};     // the former modes
const InterruptGuard* the_guard = nullptr;
int wake_pipe[2] = {-1, -1};  // the handler writes a byte: whoever polls the other end cannot miss a signal
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "used in a signal handler");

void wake() {
  const int saved = errno;
  if (wake_pipe[1] >= 0 && ::write(wake_pipe[1], "!", 1) < 0) errno = saved;
}

void restore_modes() {
  if (quiet_fd >= 0) ::tcsetattr(quiet_fd, TCSADRAIN, &loud_modes);
}

extern "C" void on_resize(int) {
  resize_seen = true;
  wake();
}

extern "C" void on_signal(int number) {
  signal_seen = number;
  if (signals_left.fetch_sub(1) > 0) return wake();
  restore_modes();
  constexpr std::string_view kShowCursor = "\x1b[?2026l\x1b[?25h\r\n";
  if (cursor_hidden && ::write(STDOUT_FILENO, kShowCursor.data(), kShowCursor.size()) < 0) ::_exit(1);
  remove_unfinished_files();
  ::_exit(128 + number);
}

extern "C" void on_last_signal(int number) {
  restore_modes();
  remove_unfinished_files();
  ::raise(number);  // delivered when this returns; SA_RESETHAND has restored the default action
}

void handle_signals(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  for (const int number : {SIGINT, SIGTERM}) ::sigaction(number, &action, nullptr);
}

}  // namespace

bool is_terminal(int fd) { return ::isatty(fd) == 1; }

namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The locale's encoding of characters. Where it says nothing, as in many containers, terminals of today take UTF-8.
bool takes_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value(variable(name));
    if (value.empty()) continue;
    std::ranges::transform(value, value.begin(),
                           [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return true;
}

}  // namespace

bool can_repaint(int fd) {
  const std::string_view term = variable("TERM");
  return is_terminal(fd) && !term.empty() && term != "dumb" && takes_utf8();
}

bool wants_color() {
  const std::string_view term = variable("TERM");
  return variable("NO_COLOR").empty() && !term.starts_with("vt") && term != "ansi";
}

TerminalSize terminal_size(int fd) {
  struct winsize size {};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

int output_width() { return is_terminal(STDOUT_FILENO) ? terminal_size(STDOUT_FILENO).columns : 80; }

Status print(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (error == EPIPE) return std::unexpected(Error{ErrorKind::failed, ""});
  if (error != 0) return failed("stdout: write failed: {}", std::strerror(error));
  return {};
}

void note(std::string_view text) { write_all(STDERR_FILENO, text); }

std::string printable_text(std::string_view bytes, bool terminal) {
  std::string text = to_valid_utf8(bytes);
  if (!terminal) return text;
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const Utf8Unit unit = utf8_unit(std::string_view(text).substr(i));
    const char32_t c = unit.code_point;
    const bool control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0);
    if (c != '\r') out += control ? kReplacement : std::string_view(text).substr(i, static_cast<size_t>(unit.length));
    i += static_cast<size_t>(unit.length);
  }
  return out;
}

std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : to_valid_utf8(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

void clean_up_on_signals() {
  struct sigaction action {};
  action.sa_handler = on_last_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old {};
    if (::sigaction(number, nullptr, &old) == 0 && old.sa_handler != SIG_IGN)  // nohup, a job in the background
      ::sigaction(number, &action, nullptr);
  }
}

InterruptGuard::InterruptGuard(int patience) : patience_(patience) {
  signal_seen = 0;
  signals_left = patience;
  resize_seen = false;
  if (::pipe(wake_pipe) != 0) wake_pipe[0] = wake_pipe[1] = -1;
  for (const int end : wake_pipe)
    if (end >= 0) ::fcntl(end, F_SETFD, FD_CLOEXEC), ::fcntl(end, F_SETFL, O_NONBLOCK);
  handle_signals(on_signal);
  struct sigaction action {};
  action.sa_handler = on_resize;
  for (const int number : {SIGWINCH, SIGCONT}) ::sigaction(number, &action, nullptr);
  the_guard = this;
}

InterruptGuard::~InterruptGuard() {
  the_guard = nullptr;
  handle_signals(SIG_DFL);
  for (const int number : {SIGWINCH, SIGCONT}) std::signal(number, SIG_DFL);
  clean_up_on_signals();
  for (int& end : wake_pipe)
    if (end >= 0) ::close(std::exchange(end, -1));
}

Wake InterruptGuard::wait(int fd) {
  // A thread of the pool may have taken the signal, so an interrupted read is nothing to rely on.
  struct pollfd ends[2] = {{fd, POLLIN, 0}, {wake_pipe[0], POLLIN, 0}};
  while (signal_seen == 0) {
    if (resize_seen.exchange(false)) return Wake::resized;
    const int ready = ::poll(ends, 2, -1);
    if (ready < 0 && errno != EINTR) return Wake::signal;
    if (ready > 0 && ends[1].revents != 0) {
      char bytes[64];
      while (::read(wake_pipe[0], bytes, sizeof bytes) > 0) continue;
    } else if (ready > 0 && ends[0].revents != 0) {
      return signal_seen == 0 ? Wake::readable : Wake::signal;
    }
  }
  return Wake::signal;
}

bool InterruptGuard::wait_readable(int fd) {
  for (;;)
    if (const Wake why = wait(fd); why != Wake::resized) return why == Wake::readable;
}

void InterruptGuard::clear() {
  signal_seen = 0;
  if (the_guard != nullptr) signals_left = the_guard->patience_;
}

int InterruptGuard::signal_number() { return signal_seen; }

void InterruptGuard::cursor_is_hidden(bool hidden) { cursor_hidden = hidden; }

QuietInput::QuietInput(int fd) {
  if (quiet_fd >= 0 || !is_terminal(fd) || ::tcgetpgrp(fd) != ::getpgrp() || ::tcgetattr(fd, &loud_modes) != 0) return;
  struct termios quiet = loud_modes;
  quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO | ECHONL | ICANON);
  quiet.c_lflag |= NOFLSH;  // Ctrl-C would take away the text typed before it
  quiet.c_cc[VMIN] = 1, quiet.c_cc[VTIME] = 0;
  quiet_fd = fd;
  changed_ = ::tcsetattr(fd, TCSADRAIN, &quiet) == 0;
}

QuietInput::~QuietInput() {
  if (!changed_) return;
  restore_modes();
  quiet_fd = -1;
}

}  // namespace llada::cli
