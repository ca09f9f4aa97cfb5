// Consoles of Windows 10 and later. There are no signals: Ctrl-C stands for SIGINT; Ctrl-Break, the window's end and
// the session's for SIGTERM. Their handler runs on a thread of its own.
#include <fcntl.h>
#include <io.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "base/api_windows.h"
#include "base/console.h"
#include "base/os.h"

namespace llada::os {
namespace {

constexpr DWORD kEndedByCtrlC = 0xC000013A;  // STATUS_CONTROL_C_EXIT, as the system's own handler ends a process

enum class Mode : uint8_t { system, each, once, held };
std::atomic<Mode> mode = Mode::system;
std::atomic<SignalHandler> handler = nullptr;
std::atomic<int> held_number = 0;
std::atomic<DWORD> loud_mode = 0;
std::atomic<HANDLE> quiet_input = nullptr;
bool escapes = false;
UINT first_output_page = 0, first_input_page = 0;

// Events that live as long as the process: a handler may come at any time.
HANDLE woken() {
  static const HANDLE event = ::CreateEventW(nullptr, FALSE, FALSE, nullptr);
  return event;
}
HANDLE held_event() {
  static const HANDLE event = ::CreateEventW(nullptr, FALSE, FALSE, nullptr);
  return event;
}

HANDLE handle_of(int fd) { return reinterpret_cast<HANDLE>(::_get_osfhandle(fd)); }

BOOL WINAPI on_event(DWORD event) {
  const int number = event == CTRL_C_EVENT ? SIGINT : SIGTERM;
  switch (mode.load()) {
    case Mode::system:
      return FALSE;
    case Mode::held:
      held_number = number;
      ::SetEvent(held_event());
      break;
    case Mode::once:
      mode = Mode::system;
      handler.load()(number);
      break;
    case Mode::each:
      handler.load()(number);
      break;
  }
  // The system ends the process as soon as this returns; the program leaves earlier, or is ended after five seconds.
  if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) ::Sleep(INFINITE);
  return TRUE;
}

void hear(Mode now) {
  static const bool installed = ::SetConsoleCtrlHandler(on_event, TRUE) != FALSE;
  static_cast<void>(installed);
  mode = now;
}

bool takes_escapes(int fd) {
  constexpr DWORD kEscapes = 4;  // ENABLE_VIRTUAL_TERMINAL_PROCESSING
  DWORD now = 0;
  const HANDLE handle = handle_of(fd);
  return ::GetConsoleMode(handle, &now) != FALSE && ::SetConsoleMode(handle, now | kEscapes) != FALSE;
}

void write_error(std::string_view text) { static_cast<void>(write(kStderr, text.data(), text.size())); }

LONG WINAPI on_fault(EXCEPTION_POINTERS* fault) {
  if (fault->ExceptionRecord->ExceptionCode != static_cast<DWORD>(EXCEPTION_IN_PAGE_ERROR))
    return EXCEPTION_CONTINUE_SEARCH;
  auto* const address = reinterpret_cast<void*>(fault->ExceptionRecord->ExceptionInformation[1]);
  static wchar_t name[1024];
  const DWORD length = ::K32GetMappedFileNameW(::GetCurrentProcess(), address, name, 1024);
  write_error("llada: ");
  write_error(length > 0 ? narrow({name, length}) : "a mapped file");
  write_error(": the file became shorter, or could not be read, while it was in use\n");
  std::_Exit(1);
}

}  // namespace

void prepare_streams() {
  for (const int fd : {kStdin, kStdout, kStderr}) ::_setmode(fd, _O_BINARY);
  first_output_page = ::GetConsoleOutputCP(), first_input_page = ::GetConsoleCP();
  if (first_output_page == 0) return;  // there is no console
  ::SetConsoleOutputCP(CP_UTF8);
  ::SetConsoleCP(CP_UTF8);
  std::atexit([] {
    ::SetConsoleOutputCP(first_output_page);
    ::SetConsoleCP(first_input_page);
  });
  const bool out = takes_escapes(kStdout), err = takes_escapes(kStderr);
  escapes = out || err;
}

bool is_terminal(int fd) {
  DWORD now = 0;
  return ::GetConsoleMode(handle_of(fd), &now) != FALSE;
}

WindowSize window_size(int fd) {
  CONSOLE_SCREEN_BUFFER_INFO screen;
  if (::GetConsoleScreenBufferInfo(handle_of(fd), &screen) == FALSE) return {};
  return {screen.srWindow.Right - screen.srWindow.Left + 1, screen.srWindow.Bottom - screen.srWindow.Top + 1};
}

std::string terminal_kind() {
  const std::string named = variable("TERM");
  return !named.empty() ? named : escapes ? "xterm-256color" : "dumb";
}

bool silence_input(int fd) {
  DWORD now = 0;
  const HANDLE input = handle_of(fd);
  if (quiet_input != nullptr || ::GetConsoleMode(input, &now) == FALSE) return false;
  loud_mode = now, quiet_input = input;
  return ::SetConsoleMode(input, now & ~static_cast<DWORD>(ENABLE_ECHO_INPUT | ENABLE_LINE_INPUT)) != FALSE;
}

void restore_input() noexcept {
  if (const HANDLE input = quiet_input.exchange(nullptr); input != nullptr) ::SetConsoleMode(input, loud_mode);
}

void ignore_write_signals() {}

void on_interrupts(SignalHandler new_handler) {
  handler = new_handler;
  hear(Mode::each);
}
void on_resizes(SignalHandler) {}  // sizes are asked for whenever something is painted
void default_signals() { mode = Mode::system; }
void on_end(SignalHandler new_handler) {
  handler = new_handler;
  hear(Mode::once);
}
void end_by_signal(int) noexcept { ::TerminateProcess(::GetCurrentProcess(), kEndedByCtrlC); }

void open_wakes() { ::ResetEvent(woken()); }
void close_wakes() {}
void wake() noexcept { ::SetEvent(woken()); }

Event wait_event(int fd) {
  const HANDLE input = handle_of(fd);
  if (is_terminal(fd)) {
    const HANDLE both[] = {woken(), input};
    const DWORD which = ::WaitForMultipleObjects(2, both, FALSE, INFINITE);
    return which == WAIT_OBJECT_0 ? Event::woken : which == WAIT_OBJECT_0 + 1 ? Event::readable : Event::failed;
  }
  constexpr DWORD kLookMs = 10;
  while (::WaitForSingleObject(woken(), 0) != WAIT_OBJECT_0) {
    if (wait_readable(fd, 0)) return Event::readable;
    if (::WaitForSingleObject(woken(), kLookMs) == WAIT_OBJECT_0) break;
  }
  return Event::woken;
}

void hold_signals() { hear(Mode::held); }
void release_signals() { mode = handler.load() != nullptr ? Mode::once : Mode::system; }
Held next_held(int milliseconds) {
  const bool came = ::WaitForSingleObject(held_event(), static_cast<DWORD>(milliseconds)) == WAIT_OBJECT_0;
  return came ? Held::end : Held::none;
}
void end_by_held() { end_by_signal(held_number); }

void report_mapping_faults() { ::AddVectoredExceptionHandler(1, on_fault); }

}  // namespace llada::os
