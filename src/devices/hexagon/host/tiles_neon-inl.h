// Shared by the kernels of 64-bit Arm: four outputs in a register, eight rows of them in eight.
#pragma once
#include <arm_neon.h>

#include "devices/hexagon/host/tile_rows-inl.h"

namespace llada::hexagon::tiles {
namespace {

// total += floor((dot << left) * c / 2^15) >> -right; c in the upper half of its lane.
TILE_INLINE int32x4_t add_product(int32x4_t total, int32x4_t dot, int32x4_t left, int32x4_t c, int32x4_t right) {
  return vaddq_s32(total, vshlq_s32(vqdmulhq_s32(vshlq_s32(dot, left), c), right));
}

// The nibbles or bytes of four outputs, eight inputs each: inputs 0 to 3 in `first`.
template <Format F>
TILE_INLINE void load_inputs(const uint8_t* w, int g, uint8x16_t& first, uint8x16_t& second) {
  if constexpr (F == Format::q4) {
    const uint8x16_t both = vld1q_u8(w + g * kVectorBytes);
    first = vandq_u8(both, vdupq_n_u8(15)), second = vshrq_n_u8(both, 4);
  } else {
    first = vld1q_u8(w + 2 * g * kVectorBytes), second = vld1q_u8(w + (2 * g + 1) * kVectorBytes);
  }
}

// F16: the product of two 16-bit numbers by their bytes, without the last eight bits.
TILE_INLINE int32x4_t joined(int32x4_t high, int32x4_t middle, int32x4_t low) {
  return vsraq_n_s32(vaddq_s32(middle, vshlq_n_s32(high, 8)), low, 8);
}

}  // namespace
}  // namespace llada::hexagon::tiles
