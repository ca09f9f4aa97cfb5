// Mutual exclusion between the threads that call the module, on the system's futex.
#pragma once
#include <stdint.h>

#include "devices/hexagon/dsp/os.h"

namespace dsp {

class Lock {
 public:
  void lock() {
    uint32_t seen = 0;
    if (__atomic_compare_exchange_n(&word_, &seen, 1u, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return;
    while (__atomic_exchange_n(&word_, 2u, __ATOMIC_SEQ_CST) != 0) os_wait(&word_, 2);
  }
  void unlock() {
    if (__atomic_exchange_n(&word_, 0u, __ATOMIC_SEQ_CST) == 2) os_wake(&word_);
  }

 private:
  uint32_t word_ = 0;  // 1: held; 2: held, and somebody may sleep
};

class LockGuard {
 public:
  explicit LockGuard(Lock& lock) : lock_(lock) { lock_.lock(); }
  ~LockGuard() { lock_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Lock& lock_;
};

}  // namespace dsp
