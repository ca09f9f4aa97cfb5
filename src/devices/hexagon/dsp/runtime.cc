// Functions that the compiler expects of a C library and of its own run-time library, which no package has for this
// target.
#include <stddef.h>
#include <stdint.h>

extern "C" {

// Plain loops; volatile-free code would be recognised as the very function it defines, which -fno-builtin prevents.
void* memset(void* to, int value, size_t bytes) {
  auto* p = static_cast<uint8_t*>(to);
  for (size_t i = 0; i < bytes; ++i) p[i] = static_cast<uint8_t>(value);
  return to;
}
void* memcpy(void* to, const void* from, size_t bytes) {
  auto* p = static_cast<uint8_t*>(to);
  const auto* q = static_cast<const uint8_t*>(from);
  if (((reinterpret_cast<uintptr_t>(p) | reinterpret_cast<uintptr_t>(q)) & 7) == 0)
    for (; bytes >= 8; bytes -= 8, p += 8, q += 8)
      *reinterpret_cast<uint64_t*>(p) = *reinterpret_cast<const uint64_t*>(q);
  for (size_t i = 0; i < bytes; ++i) p[i] = q[i];
  return to;
}

void* __hexagon_memcpy_likely_aligned_min32bytes_mult8bytes(void* to, const void* from, size_t bytes) {
  return memcpy(to, from, bytes);
}

// Shift and subtract: used a few times per op only.
uint32_t __hexagon_udivsi3(uint32_t a, uint32_t b) {
  uint32_t quotient = 0, rest = 0;
  for (int i = 31; i >= 0; --i) {
    rest = rest << 1 | (a >> i & 1);
    if (rest >= b) rest -= b, quotient |= 1u << i;
  }
  return quotient;
}
uint32_t __hexagon_umodsi3(uint32_t a, uint32_t b) { return a - __hexagon_udivsi3(a, b) * b; }
int32_t __hexagon_divsi3(int32_t a, int32_t b) {
  const uint32_t q = __hexagon_udivsi3(a < 0 ? 0u - static_cast<uint32_t>(a) : static_cast<uint32_t>(a),
                                       b < 0 ? 0u - static_cast<uint32_t>(b) : static_cast<uint32_t>(b));
  return static_cast<int32_t>((a < 0) != (b < 0) ? 0u - q : q);
}
int32_t __hexagon_modsi3(int32_t a, int32_t b) { return a - __hexagon_divsi3(a, b) * b; }
uint64_t __hexagon_udivdi3(uint64_t a, uint64_t b) {
  uint64_t quotient = 0, rest = 0;
  for (int i = 63; i >= 0; --i) {
    rest = rest << 1 | (a >> i & 1);
    if (rest >= b) rest -= b, quotient |= uint64_t{1} << i;
  }
  return quotient;
}

}  // extern "C"
