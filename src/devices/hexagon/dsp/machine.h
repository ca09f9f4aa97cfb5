// The scalar instructions that have no name in C, and the target of the build: the DSP, or the host, where the same
// sources give the same bits.
#pragma once
#include <stdint.h>

namespace dsp {

#ifdef __hexagon__

constexpr uint32_t kArchitecture = __HEXAGON_ARCH__;

inline float fma(float a, float b, float c) { return __builtin_HEXAGON_F2_sffma(c, a, b); }
inline int32_t round_to_int(float x) { return __builtin_HEXAGON_F2_conv_sf2w(x); }  // nearest, ties to even

// Cycles of the core's clock since it was started (UPCYCLE); the emulator reads 0.
inline uint64_t clock_cycles() {
  uint64_t count = 0;
  asm volatile("%0 = c15:14" : "=r"(count));
  return count;
}

// The implementation of os_clean() on a DSP.
inline void clean_cache(const uint8_t* bytes, uint32_t count) {
  constexpr uintptr_t kLine = 32;
  const auto end = reinterpret_cast<uintptr_t>(bytes) + count;
  for (uintptr_t line = reinterpret_cast<uintptr_t>(bytes) & ~(kLine - 1); line < end; line += kLine)
    asm volatile("dccleaninva(%0)" : : "r"(line) : "memory");
  asm volatile("syncht" : : : "memory");
}

// Brings `lines` stretches of `width` bytes, one behind the other, towards L2 while the thread goes on. Addresses that
// are not mapped do no harm.
inline void prefetch(const uint8_t* from, uint32_t width, uint32_t lines) {
  const uint64_t box = static_cast<uint64_t>(width) << 32 | width << 16 | lines;
  asm volatile("l2fetch(%0,%1)" : : "r"(from), "r"(box));
}

#else

constexpr uint32_t kArchitecture = 0;

inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline int32_t round_to_int(float x) {  // beyond the range of int32 the nearest of it, as the instruction does
  if (x != x) return -1;
  if (x >= 2147483648.0f) return INT32_MAX;
  return x < -2147483648.0f ? INT32_MIN : static_cast<int32_t>(__builtin_lrintf(x));
}
inline uint64_t clock_cycles() { return 0; }
inline void prefetch(const uint8_t*, uint32_t, uint32_t) {}

#endif

}  // namespace dsp
