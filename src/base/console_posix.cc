// Terminals and signals of Linux, Android and macOS.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "base/console.h"
#include "base/os.h"

namespace llada::os {
namespace {

std::atomic<int> quiet_fd = -1;  // a terminal whose modes silence_input() has changed
struct termios loud_modes{};     // the former modes
int wake_pipe[2] = {-1, -1};     // the handler writes a byte: whoever polls the other end cannot miss a signal
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

void set_handler(std::initializer_list<int> numbers, SignalHandler handler) {
  struct sigaction action{};
  action.sa_handler = handler;
  for (const int number : numbers) ::sigaction(number, &action, nullptr);
}

sigset_t held_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  return set;
}
int last_held = 0;

}  // namespace

// The next file opened would get a closed stream's number: a model would be read as input, a message written into it.
// A folder holds the number instead, which is neither read nor written.
void prepare_streams() {
#ifdef O_PATH
  constexpr int kNeither = O_PATH;  // reads and writes fail as those of a closed file do
#else
  constexpr int kNeither = O_RDONLY;
#endif
  for (const int fd : {kStdin, kStdout, kStderr})
    if (::fcntl(fd, F_GETFD) < 0) static_cast<void>(::open("/", kNeither | O_DIRECTORY));  // the lowest free number
}

bool is_terminal(int fd) { return ::isatty(fd) == 1; }

WindowSize window_size(int fd) {
  struct winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0) return {};
  return {size.ws_col, size.ws_row};
}

std::string terminal_kind() { return variable("TERM"); }

bool silence_input(int fd) {
  if (quiet_fd >= 0 || !is_terminal(fd) || ::tcgetpgrp(fd) != ::getpgrp() || ::tcgetattr(fd, &loud_modes) != 0)
    return false;
  struct termios quiet = loud_modes;
  quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO | ECHONL | ICANON);
  quiet.c_lflag |= NOFLSH;  // Ctrl-C would take away the text typed before it
  quiet.c_cc[VMIN] = 1, quiet.c_cc[VTIME] = 0;
  quiet_fd = fd;
  return ::tcsetattr(fd, TCSADRAIN, &quiet) == 0;
}

void restore_input() noexcept {
  if (quiet_fd >= 0) ::tcsetattr(quiet_fd, TCSADRAIN, &loud_modes);
  quiet_fd = -1;
}

void ignore_write_signals() {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that goes away
  std::signal(SIGXFSZ, SIG_IGN);  // a file larger than the user's limit
}

void on_interrupts(SignalHandler handler) { set_handler({SIGINT, SIGTERM}, handler); }
void on_resizes(SignalHandler handler) { set_handler({SIGWINCH, SIGCONT}, handler); }
void default_signals() { set_handler({SIGINT, SIGTERM, SIGWINCH, SIGCONT}, SIG_DFL); }

void on_end(SignalHandler handler) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old{};
    if (::sigaction(number, nullptr, &old) == 0 && old.sa_handler != SIG_IGN)  // nohup, a job in the background
      ::sigaction(number, &action, nullptr);
  }
}

// Delivered when the handler returns; SA_RESETHAND has restored the default action.
void end_by_signal(int number) noexcept { ::raise(number); }

void open_wakes() {
  if (::pipe(wake_pipe) != 0) wake_pipe[0] = wake_pipe[1] = -1;
  for (const int end : wake_pipe)
    if (end >= 0) ::fcntl(end, F_SETFD, FD_CLOEXEC), ::fcntl(end, F_SETFL, O_NONBLOCK);
}

void close_wakes() {
  for (int& end : wake_pipe)
    if (end >= 0) ::close(std::exchange(end, -1));
}

void wake() noexcept {
  const int saved = errno;
  if (wake_pipe[1] >= 0 && ::write(wake_pipe[1], "!", 1) < 0) errno = saved;
}

Event wait_event(int fd) {
  // A thread of the pool may have taken the signal, so an interrupted read is nothing to rely on.
  struct pollfd ends[2] = {{fd, POLLIN, 0}, {wake_pipe[0], POLLIN, 0}};
  const int ready = ::poll(ends, 2, -1);
  if (ready < 0) return errno == EINTR ? Event::woken : Event::failed;
  if (ends[1].revents != 0) {
    char bytes[64];
    while (::read(wake_pipe[0], bytes, sizeof bytes) > 0) continue;
    return Event::woken;
  }
  return Event::readable;
}

void hold_signals() {
  const sigset_t set = held_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}
void release_signals() {
  const sigset_t set = held_set();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

#ifdef __APPLE__  // has no sigtimedwait(); a signal stays pending between two looks
Held next_held(int milliseconds) {
  constexpr int kLookMs = 20;
  const sigset_t set = held_set();
  for (int waited = 0;; waited += kLookMs) {
    sigset_t pending;
    const bool known = ::sigpending(&pending) == 0;
    for (const int number : {SIGTERM, SIGINT, SIGHUP})
      if (known && sigismember(&pending, number) == 1 && sigwait(&set, &last_held) == 0)
        return last_held == SIGHUP ? Held::reload : Held::end;
    if (waited >= milliseconds) return Held::none;
    std::this_thread::sleep_for(std::chrono::milliseconds(kLookMs));
  }
}
#else
Held next_held(int milliseconds) {
  const sigset_t set = held_set();
  const struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1'000'000};
  const int number = ::sigtimedwait(&set, nullptr, &pause);
  if (number < 0) return Held::none;
  last_held = number;
  return number == SIGHUP ? Held::reload : Held::end;
}
#endif

void end_by_held() {
  std::signal(last_held, SIG_DFL);
  release_signals();
  std::raise(last_held);
}

}  // namespace llada::os
