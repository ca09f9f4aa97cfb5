// A process of its own in which the system refuses memory, and so threads: for tests of what is done then.
#pragma once
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

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

// Whether this thread is the process's only one. join() returns when a thread has ended, which the kernel may go on
// listing for a moment, so a wrong number is looked at again for up to five seconds.
inline bool alone_here() {
  using Entries = std::filesystem::directory_iterator;
  for (int attempt = 0; attempt < 500; ++attempt) {
    if (std::distance(Entries("/proc/self/task"), Entries()) == 1) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kMemoryCanBeBounded = false;
#else
inline constexpr bool kMemoryCanBeBounded = true;
#endif

}  // namespace llada
