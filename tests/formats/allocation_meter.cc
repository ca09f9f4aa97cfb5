#include "formats/allocation_meter.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

// Per thread, so that other threads of the test program do not disturb a measurement. A block freed by
// another thread than its maker's shifts the level; the parsers under test have one thread.
thread_local size_t live = 0, highest = 0;

constexpr size_t kHeader = alignof(std::max_align_t);

void* allocate(size_t size) {
  auto* block = static_cast<size_t*>(std::malloc(size + kHeader));
  if (block == nullptr) std::abort();
  *block = size;
  live += size;
  highest = std::max(highest, live);
  return reinterpret_cast<char*>(block) + kHeader;
}

void release(void* pointer) {
  if (pointer == nullptr) return;
  auto* block = reinterpret_cast<size_t*>(static_cast<char*>(pointer) - kHeader);
  live -= *block;
  std::free(block);
}

}  // namespace

void* operator new(size_t size) { return allocate(size); }
void* operator new[](size_t size) { return allocate(size); }
void operator delete(void* pointer) noexcept { release(pointer); }
void operator delete[](void* pointer) noexcept { release(pointer); }
void operator delete(void* pointer, size_t) noexcept { release(pointer); }
void operator delete[](void* pointer, size_t) noexcept { release(pointer); }

namespace llada {

AllocationMeter::AllocationMeter() : start_(live) { highest = live; }
size_t AllocationMeter::peak() const { return highest - start_; }

}  // namespace llada
