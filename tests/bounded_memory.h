// A process of its own in which the system refuses memory, and so threads: for tests of what is done then.
#pragma once
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace llada {

// What `work` returns there, where the address space may grow by 100 MiB: room for a few threads' stacks. It returns
// from 0 to 100; 101: it threw; more: a signal ended it. Sanitizers need the address space for themselves.
template <class Work>
int in_bounded_memory(const Work& work) {
  constexpr int kThrew = 101, kSignal = 128;
  const pid_t child = ::fork();
  if (child == 0) {
    int result = kThrew;
    try {
      long pages = 0;
      std::ifstream("/proc/self/statm") >> pages;
      const rlim_t bytes =
          static_cast<rlim_t>(pages) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{100} << 20);
      const rlimit bound{bytes, bytes};
      ::setrlimit(RLIMIT_AS, &bound);
      result = work();
    } catch (...) {
    }
    ::_exit(result);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignal + WTERMSIG(status);
}

// Threads of this process, this one among them.
inline int64_t threads_here() {
  using Entries = std::filesystem::directory_iterator;
  return std::distance(Entries("/proc/self/task"), Entries());
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kMemoryCanBeBounded = false;
#else
inline constexpr bool kMemoryCanBeBounded = true;
#endif

}  // namespace llada
