// The scalar instructions that have no name in C, and what the build is for. A fuzzer's build for the host has a file
// of this name of its own.
#pragma once
#include <stdint.h>

namespace dsp {

constexpr uint32_t kArchitecture = __HEXAGON_ARCH__;

inline float fma(float a, float b, float c) { return __builtin_HEXAGON_F2_sffma(c, a, b); }
inline int32_t round_to_int(float x) { return __builtin_HEXAGON_F2_conv_sf2w(x); }  // nearest, ties to even

// Writes the lines of these bytes to memory and forgets them.
inline void clean_cache(const uint8_t* bytes, uint32_t count) {
  constexpr uintptr_t kLine = 32;
  const auto end = reinterpret_cast<uintptr_t>(bytes) + count;
  for (uintptr_t line = reinterpret_cast<uintptr_t>(bytes) & ~(kLine - 1); line < end; line += kLine)
    asm volatile("dccleaninva(%0)" : : "r"(line) : "memory");
  asm volatile("syncht" : : : "memory");
}

// Brings `lines` stretches of `width` bytes, one behind the other, towards L2 while the thread goes on. Addresses that
// are not mapped are nothing's fault.
inline void prefetch(const uint8_t* from, uint32_t width, uint32_t lines) {
  const uint64_t box = static_cast<uint64_t>(width) << 32 | width << 16 | lines;
  asm volatile("l2fetch(%0,%1)" : : "r"(from), "r"(box));
}

}  // namespace dsp
