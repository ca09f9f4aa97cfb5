// Counts what the code under test allocates: this test program replaces operator new.
#pragma once
#include <cstddef>

namespace llada {

// Live bytes above the level at construction, at their highest. One meter at a time, on the thread that made
// it.
class AllocationMeter {
 public:
  AllocationMeter();
  size_t peak() const;

 private:
  size_t start_;
};

}  // namespace llada
