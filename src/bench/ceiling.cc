#include "bench/ceiling.h"

#include <cstring>

namespace llada::bench {

uint64_t read_loop(std::span<const std::byte> bytes) {
  constexpr size_t kLine = 64, kAhead = 4096;  // bytes; prefetches beyond the end are harmless
  const auto word = [&](size_t at) {
    uint64_t value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  };
  uint64_t a = 0, b = 0, c = 0, d = 0;
  for (size_t at = 0; at + kLine <= bytes.size(); at += kLine) {
    __builtin_prefetch(bytes.data() + at + kAhead);
    a += word(at), b += word(at + 16), c += word(at + 32), d += word(at + 48);
  }
  return a + b + c + d;
}

}  // namespace llada::bench
