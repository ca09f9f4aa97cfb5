// What src/devices/hexagon/dsp/machine.h says of the DSP, for the host.
#pragma once
#include <math.h>
#include <stdint.h>

namespace dsp {

constexpr uint32_t kArchitecture = 0;

inline float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
inline int32_t round_to_int(float x) {  // beyond the range of int32 the nearest of it, as the instruction does
  if (x != x) return -1;
  if (x >= 2147483648.0f) return INT32_MAX;
  return x < -2147483648.0f ? INT32_MIN : static_cast<int32_t>(::nearbyintf(x));
}
inline void clean_cache(const uint8_t* bytes, uint32_t count) {
  // All of it may be touched.
  if (count > 0)
    static_cast<void>(*static_cast<const volatile uint8_t*>(bytes)),
        static_cast<void>(*static_cast<const volatile uint8_t*>(bytes + count - 1));
}

inline void prefetch(const uint8_t*, uint32_t, uint32_t) {}

}  // namespace dsp
