#include "memory_meter.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LLADA_COUNTED 0
#else
#define LLADA_COUNTED 1
#endif

namespace {

std::atomic<int64_t> live = 0, highest = 0;
thread_local int64_t largest = std::numeric_limits<int64_t>::max();

void count(int64_t bytes) {
  const int64_t now = live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t before = highest.load(std::memory_order_relaxed);
  while (now > before && !highest.compare_exchange_weak(before, now, std::memory_order_relaxed)) {
  }
}

void* allocate(size_t size) {
  if (static_cast<int64_t>(size) >= largest) throw std::bad_alloc();
  if (void* data = std::malloc(std::max<size_t>(size, 1))) return data;
  throw std::bad_alloc();
}

}  // namespace

#if LLADA_COUNTED
extern "C" {
void* __libc_malloc(size_t);
void __libc_free(void*);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

static void* counted(void* data) {
  if (data != nullptr) count(static_cast<int64_t>(malloc_usable_size(data)));
  return data;
}
void* malloc(size_t size) { return counted(__libc_malloc(size)); }
void* calloc(size_t n, size_t size) { return counted(__libc_calloc(n, size)); }
void* memalign(size_t align, size_t size) { return counted(__libc_memalign(align, size)); }
void* aligned_alloc(size_t align, size_t size) { return counted(__libc_memalign(align, size)); }
int posix_memalign(void** to, size_t align, size_t size) {
  void* const data = counted(__libc_memalign(align, size));
  if (data == nullptr) return ENOMEM;
  *to = data;
  return 0;
}
void free(void* data) {
  if (data != nullptr) count(-static_cast<int64_t>(malloc_usable_size(data)));
  __libc_free(data);
}
void* realloc(void* old, size_t size) {
  const auto before = static_cast<int64_t>(old != nullptr ? malloc_usable_size(old) : 0);
  void* const data = __libc_realloc(old, size);
  if (data != nullptr || size == 0) count(-before);
  return counted(data);
}
}
#endif

void* operator new(size_t size) { return allocate(size); }
void* operator new[](size_t size) { return allocate(size); }
void operator delete(void* data) noexcept { std::free(data); }
void operator delete[](void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }
void operator delete[](void* data, size_t) noexcept { std::free(data); }

namespace llada {

bool MemoryMeter::works() { return LLADA_COUNTED != 0; }
MemoryMeter::MemoryMeter() : start_(live) { highest = start_; }
int64_t MemoryMeter::peak() const { return highest - start_; }

NoLargeMemory::NoLargeMemory(int64_t bytes) { largest = bytes; }
NoLargeMemory::~NoLargeMemory() { largest = std::numeric_limits<int64_t>::max(); }

}  // namespace llada
