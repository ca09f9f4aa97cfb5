// The functions that FastRPC's user process on a DSP may export, as pointers: null where a phone's system lacks the
// function. Filled by os_phone.cc from weak symbols and by os_emulator.cc from Linux's calls; os_hap.cc says what is
// done with them.
#pragma once
#include <stdint.h>

namespace dsp {

struct Hap {
  // Null or (void*)-1: refused. mmap2 takes 2 GiB and more, and is there above v73.
  void* (*mmap2)(void* address, uint32_t bytes, int protection, int flags, int fd, long offset);
  void* (*mmap)(void* address, int bytes, int protection, int flags, int fd, long offset);
  int (*munmap2)(void* address, uint32_t bytes);
  int (*munmap)(void* address, int bytes);
  int (*power_set)(void* client, void* request);
  // The matrix unit with its memory: attributes are filled, then acquired as a context; 0: refused. Null: all are.
  int (*resource_init)(void* attributes);
  int (*resource_vtcm)(void* attributes, unsigned bytes, unsigned page, unsigned least);
  int (*resource_hmx)(void* attributes, int on);
  unsigned (*resource_acquire)(void* attributes, unsigned microseconds);
  int (*resource_memory)(void* attributes, void** memory, unsigned* bytes);
  int (*resource_release)(unsigned context);
  int (*hmx_lock)(unsigned context);
  int (*hmx_unlock)(unsigned context);
  uint32_t (*error)();  // the emulator's: the error number of the last refusal
};
Hap hap();

constexpr int kHapRead = 1, kHapReadWrite = 3;  // protections

}  // namespace dsp
