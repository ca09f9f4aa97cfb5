// The clock of a thread on Linux, Android and macOS.
#include <time.h>

#include "base/cpu_time.h"

namespace llada {

double thread_cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace llada
