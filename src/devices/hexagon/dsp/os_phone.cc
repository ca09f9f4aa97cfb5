// The system back end of a phone: the exports of FastRPC's user process on the DSP, declared here by prototype because
// its headers are not free. Everything is weak: a missing function costs speed (one thread, no clock) or is an error of
// the call that needs it, and the module loads. Compiled, never run by a test: no emulator has these functions. Workers
// have stacks of this module, set through the system's own functions for attributes, whose layout nobody needs to know.
// Deliberately absent: VTCM and locks of vector units, whose structures are only in the vendor's SDK.
#include "devices/hexagon/dsp/machine.h"
#include "devices/hexagon/dsp/os.h"
#include "devices/hexagon/dsp/os_hap.h"

extern "C" {
__attribute__((weak)) void* HAP_mmap2(void* address, uint32_t bytes, int protection, int flags, int fd, long offset);
__attribute__((weak)) void* HAP_mmap(void* address, int bytes, int protection, int flags, int fd, long offset);
__attribute__((weak)) int HAP_munmap2(void* address, uint32_t bytes);
__attribute__((weak)) int HAP_munmap(void* address, int bytes);
__attribute__((weak)) int HAP_power_set(void* client, void* request);
__attribute__((weak)) unsigned long long HAP_perf_get_time_us();
__attribute__((weak)) void HAP_debug(const char* text, int level, const char* file, int line);
__attribute__((weak)) int qurt_hvx_get_units();
__attribute__((weak)) int qurt_futex_wait(void* word, int seen);
__attribute__((weak)) int qurt_futex_wake(void* word, int threads);
__attribute__((weak)) int pthread_create(unsigned* thread, const void* attributes, void* (*entry)(void*),
                                         void* argument);
__attribute__((weak)) int pthread_join(unsigned thread, void** result);
__attribute__((weak)) int pthread_attr_init(void* attributes);
__attribute__((weak)) int pthread_attr_setstacksize(void* attributes, unsigned bytes);
__attribute__((weak)) int pthread_attr_setstackaddr(void* attributes, void* stack);
}

namespace dsp {

Hap hap() {
  const bool second = HAP_mmap2 != nullptr && HAP_munmap2 != nullptr;
  return {second ? HAP_mmap2 : nullptr, HAP_mmap, second ? HAP_munmap2 : nullptr, HAP_munmap, HAP_power_set, nullptr};
}

void os_clean(const uint8_t* bytes, uint32_t count) { clean_cache(bytes, count); }

Matrix os_matrix() { return {}; }
bool os_lock_matrix(const Matrix&) { return false; }
void os_unlock_matrix() {}

uint64_t os_microseconds() { return HAP_perf_get_time_us != nullptr ? HAP_perf_get_time_us() : 0; }
uint64_t os_packets() { return 0; }
void os_log(const char* text) {
  if (HAP_debug != nullptr) HAP_debug(text, 2, "llada", 0);
}

uint32_t os_threads() {
  if (pthread_create == nullptr || pthread_join == nullptr || qurt_futex_wait == nullptr || qurt_futex_wake == nullptr)
    return 1;
  // The number of vector units of 128 bytes stands in the second byte.
  const uint32_t units = qurt_hvx_get_units != nullptr ? static_cast<uint32_t>(qurt_hvx_get_units()) >> 8 & 0xff : 0;
  return units > 0 ? units : 4;
}

uint32_t os_emulated() { return 0; }

namespace {

constexpr uint32_t kStackBytes = 64 << 10;  // as under the emulator, where every kernel is tested with it
alignas(128) uint8_t stacks[kMaxWorkers][kStackBytes];

struct Start {
  void (*entry)(void*);
  void* argument;
  unsigned thread;
};
Start starts[kMaxWorkers];

void* start_worker(void* start) {
  static_cast<Start*>(start)->entry(static_cast<Start*>(start)->argument);
  return nullptr;
}

}  // namespace

bool os_start_worker(uint32_t index, void (*entry)(void*), void* argument) {
  starts[index] = {entry, argument, 0};
  alignas(8) uint8_t attributes[256];  // far more than any system's
  const bool own_stack = pthread_attr_init != nullptr && pthread_attr_setstacksize != nullptr &&
                         pthread_attr_setstackaddr != nullptr && pthread_attr_init(attributes) == 0 &&
                         pthread_attr_setstacksize(attributes, kStackBytes) == 0 &&
                         pthread_attr_setstackaddr(attributes, stacks[index]) == 0;
  return pthread_create(&starts[index].thread, own_stack ? attributes : nullptr, start_worker, &starts[index]) == 0;
}
void os_join_worker(uint32_t index) { pthread_join(starts[index].thread, nullptr); }

// Without futexes there are no workers, but locks between calls there are: they go round.
void os_wait(uint32_t* word, uint32_t seen) {
  if (qurt_futex_wait != nullptr) qurt_futex_wait(word, static_cast<int>(seen));
}
void os_wake(uint32_t* word) {
  if (qurt_futex_wake != nullptr) qurt_futex_wake(word, 64);
}
void os_pause() { asm volatile("pause(#63)"); }  // cycles, left to the other hardware threads
uint32_t os_polls() { return 1 << 14; }          // about a millisecond

}  // namespace dsp
