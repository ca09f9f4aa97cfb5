// Counts and refuses memory: this test program replaces malloc() and its relatives, and operator new.
#pragma once
#include <cstdint>

namespace llada {

// Live bytes of the whole process above the level at construction, at their highest. One at a time.
class MemoryMeter {
 public:
  // Where a sanitizer has its own malloc() nothing can be counted.
  static bool works();
  MemoryMeter();
  int64_t peak() const;

 private:
  int64_t start_;
};

// While it lives, operator new of this thread throws for every allocation of so many bytes or more.
class NoLargeMemory {
 public:
  explicit NoLargeMemory(int64_t bytes);
  ~NoLargeMemory();
  NoLargeMemory(const NoLargeMemory&) = delete;
  NoLargeMemory& operator=(const NoLargeMemory&) = delete;
};

}  // namespace llada
