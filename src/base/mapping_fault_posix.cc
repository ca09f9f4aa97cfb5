// Only async-signal-safe calls after the signal: no allocation, no formatting, no locks.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "base/console.h"

namespace llada::os {
namespace {

// One line of /proc/self/maps: "begin-end perms offset device inode   path", numbers in hex. The path of the
// mapping that `address` lies in, or null.
const char* path_if_inside(const char* line, uintptr_t address) {
  uintptr_t bounds[2] = {0, 0};
  for (uintptr_t& bound : bounds)
    for (; *line != '\0'; ++line) {
      const char c = *line;
      if (c >= '0' && c <= '9')
        bound = bound * 16 + static_cast<uintptr_t>(c - '0');
      else if (c >= 'a' && c <= 'f')
        bound = bound * 16 + static_cast<uintptr_t>(c - 'a' + 10);
      else {
        ++line;
        break;
      }
    }
  return address >= bounds[0] && address < bounds[1] ? std::strchr(line, '/') : nullptr;
}

// Writes the path of the file mapped at `address`, or says that it has none.
void write_path(uintptr_t address) {
  static char line[4096];  // not on the stack: the signal may have come on a small one
  const int fd = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  size_t used = 0;
  char c = 0;
  const char* path = nullptr;
  while (path == nullptr && fd >= 0 && ::read(fd, &c, 1) == 1) {
    if (c != '\n') {
      if (used + 1 < sizeof line) line[used++] = c;
      continue;
    }
    line[used] = '\0';
    used = 0;
    path = path_if_inside(line, address);
  }
  if (path == nullptr) path = "a mapped file";
  if (::write(STDERR_FILENO, path, std::strlen(path)) < 0) ::_exit(1);
}

void on_bus_error(int, siginfo_t* info, void*) {
  constexpr char kBegin[] = "llada: ",
                 kEnd[] = ": the file became shorter, or could not be read, while it was in use\n";
  bool written = ::write(STDERR_FILENO, kBegin, sizeof kBegin - 1) > 0;
  write_path(reinterpret_cast<uintptr_t>(info->si_addr));
  written = ::write(STDERR_FILENO, kEnd, sizeof kEnd - 1) > 0 && written;
  ::_exit(1);
}

}  // namespace

void report_mapping_faults() {
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_RESETHAND;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace llada::os
