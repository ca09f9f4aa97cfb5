#include "cli/terminal.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/console.h"
#include "base/file.h"
#include "base/os.h"
#include "text/utf8.h"

namespace llada::cli {
namespace {

// Returns 0 or the errno of the failure.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const int64_t n = os::write(fd, text.data(), text.size());
    if (n < 0 && errno == EAGAIN) {  // somebody made our end non-blocking
      static_cast<void>(os::wait_writable(fd, -1));
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
const InterruptGuard* the_guard = nullptr;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "used in a signal handler");

extern "C" void on_resize(int) {
  resize_seen = true;
  os::wake();
}

extern "C" void on_signal(int number) {
  signal_seen = number;
  if (signals_left.fetch_sub(1) > 0) return os::wake();
  os::restore_input();
  constexpr std::string_view kShowCursor = "\x1b[?2026l\x1b[?25h\r\n";
  if (cursor_hidden && os::write(os::kStdout, kShowCursor.data(), kShowCursor.size()) < 0) std::_Exit(1);
  remove_unfinished_files();
  std::_Exit(128 + number);
}

extern "C" void on_last_signal(int number) {
  os::restore_input();
  remove_unfinished_files();
  os::end_by_signal(number);
}

}  // namespace

bool is_terminal(int fd) { return os::is_terminal(fd); }

namespace {

// The locale's encoding of characters. Where it says nothing, as in many containers, terminals of today take UTF-8.
bool takes_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value = os::variable(name);
    if (value.empty()) continue;
    std::ranges::transform(value, value.begin(),
                           [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return true;
}

}  // namespace

bool can_repaint(int fd) {
  const std::string term = os::terminal_kind();
  return is_terminal(fd) && !term.empty() && term != "dumb" && takes_utf8();
}

bool wants_color() {
  const std::string term = os::terminal_kind();
  return os::variable("NO_COLOR").empty() && !term.starts_with("vt") && term != "ansi";
}

TerminalSize terminal_size(int fd) {
  const os::WindowSize size = os::window_size(fd);
  return size.columns == 0 || size.rows == 0 ? TerminalSize() : TerminalSize{size.columns, size.rows};
}

int output_width() { return is_terminal(os::kStdout) ? terminal_size(os::kStdout).columns : 80; }

Status print(std::string_view text) {
  const int error = write_all(os::kStdout, text);
  if (error == EPIPE) return std::unexpected(Error{ErrorKind::failed, ""});
  if (error != 0) return failed("stdout: write failed: {}", std::strerror(error));
  return {};
}

void note(std::string_view text) { write_all(os::kStderr, text); }

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

void clean_up_on_signals() { os::on_end(on_last_signal); }

InterruptGuard::InterruptGuard(int patience) : patience_(patience) {
  signal_seen = 0;
  signals_left = patience;
  resize_seen = false;
  os::open_wakes();
  os::on_interrupts(on_signal);
  os::on_resizes(on_resize);
  the_guard = this;
}

InterruptGuard::~InterruptGuard() {
  the_guard = nullptr;
  os::default_signals();
  clean_up_on_signals();
  os::close_wakes();
}

Wake InterruptGuard::wait(int fd) {
  while (signal_seen == 0) {
    if (resize_seen.exchange(false)) return Wake::resized;
    const os::Event event = os::wait_event(fd);
    if (event == os::Event::failed) return Wake::signal;
    if (event == os::Event::readable && signal_seen == 0) return Wake::readable;
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

QuietInput::QuietInput(int fd) : changed_(os::silence_input(fd)) {}

QuietInput::~QuietInput() {
  if (changed_) os::restore_input();
}

}  // namespace llada::cli
