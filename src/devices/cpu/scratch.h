// Memory that a part of the CPU device needs between the ops that fill it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/pages.h"

namespace llada {

// Grows, never shrinks.
class Scratch {
 public:
  // Contents are lost.
  Status reserve(int64_t bytes) {
    if (bytes <= bytes_) {
      forget(data_.get(), bytes_);
      return {};
    }
    return grow(bytes);
  }
  // Contents are lost on growth.
  Status grow(int64_t bytes) {
    if (bytes <= bytes_) return {};
    data_.reset();
    bytes_ = 0;
    data_ = allocate_shared(bytes);
    if (data_ == nullptr) return failed("cpu: {} bytes of scratch memory could not be allocated", bytes);
    bytes_ = bytes;
    return {};
  }
  void adopt(SharedBytes memory, int64_t bytes) { data_ = std::move(memory), bytes_ = bytes; }
  std::byte* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }

 private:
  SharedBytes data_;
  int64_t bytes_ = 0;
};

}  // namespace llada
