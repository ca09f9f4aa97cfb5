// The system back end of a phone: the exports of FastRPC's user process on the DSP, declared here by prototype because
// its headers are not free. Everything is weak: a missing function costs speed (one thread, no clock) or is an error of
// the call that needs it, and the module loads. Compiled, never run by a test: no emulator has these functions. Workers
// have stacks of this module, set through the system's own functions for attributes, whose layout nobody needs to know.
// Deliberately absent: locks of vector units.
#include "devices/hexagon/dsp/machine.h"
#include "devices/hexagon/dsp/os.h"
#include "devices/hexagon/dsp/os_hap.h"

extern "C" {
__attribute__((weak)) void* HAP_mmap2(void* address, uint32_t bytes, int protection, int flags, int fd, long offset);
__attribute__((weak)) void* HAP_mmap(void* address, int bytes, int protection, int flags, int fd, long offset);
__attribute__((weak)) int HAP_munmap2(void* address, uint32_t bytes);
__attribute__((weak)) int HAP_munmap(void* address, int bytes);
__attribute__((weak)) int HAP_power_set(void* client, void* request);
__attribute__((weak)) int compute_resource_attr_init(void* attributes);
__attribute__((weak)) int compute_resource_attr_set_vtcm_param_v2(void* attributes, unsigned bytes, unsigned page,
                                                                  unsigned least);
__attribute__((weak)) int compute_resource_attr_set_hmx_param(void* attributes, int on);
__attribute__((weak)) unsigned compute_resource_acquire(void* attributes, unsigned microseconds);
__attribute__((weak)) int compute_resource_attr_get_vtcm_ptr_v2(void* attributes, void** memory, unsigned* bytes);
__attribute__((weak)) int compute_resource_release(unsigned context);
__attribute__((weak)) int compute_resource_hmx_lock(unsigned context);
__attribute__((weak)) int compute_resource_hmx_unlock(unsigned context);
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
  Hap calls = {};
  if (second) calls.mmap2 = HAP_mmap2, calls.munmap2 = HAP_munmap2;
  calls.mmap = HAP_mmap, calls.munmap = HAP_munmap;
  calls.power_set = HAP_power_set;
#if __HEXAGON_ARCH__ >= 73  // before it the unit stores by another word than hmx.h has
  calls.resource_init = compute_resource_attr_init;
  calls.resource_vtcm = compute_resource_attr_set_vtcm_param_v2;
  calls.resource_hmx = compute_resource_attr_set_hmx_param;
  calls.resource_acquire = compute_resource_acquire;
  calls.resource_memory = compute_resource_attr_get_vtcm_ptr_v2;
  calls.resource_release = compute_resource_release;
  calls.hmx_lock = compute_resource_hmx_lock;
  calls.hmx_unlock = compute_resource_hmx_unlock;
#endif
  return calls;
}

void os_clean(const uint8_t* bytes, uint32_t count) { clean_cache(bytes, count); }

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
