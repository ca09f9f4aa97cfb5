// Keys and values of F16 as the F16 matrix kernel reads weights (devices/hexagon/wire.h, TILE_F16). 32 keys are the
// outputs of one tile with head_dim inputs. The values of a chunk are head_dim / 32 tiles whose inputs are the keys.
// The elements of 32 keys share an exponent and are rounded to 16 bits of their largest.
#pragma once
#include <stdint.h>

namespace dsp {

// The exponent field of the largest of count x head_dim elements, at least 1; 31: not all are finite.
int32_t largest_exponent(const uint16_t* elements, uint32_t count, uint32_t head_dim);

// count (at most 32) keys; work: 64 vectors.
void pack_keys(const uint16_t* keys, uint32_t count, uint32_t head_dim, int32_t exponent, uint8_t* work, uint8_t* tile);

// Values of `count` (at most 32) keys as block `block` of tiles with `inputs` inputs, `top` the largest exponent of all
// blocks.
void pack_values(const uint16_t* values, uint32_t count, uint32_t head_dim, uint32_t block, uint32_t inputs,
                 int32_t exponent, int32_t top, uint8_t* tiles);

// The same for the matrix unit, as weights of FP16 with the elements' own bits. 32 keys are outputs of head_dim / 32
// tiles, one behind the other, with the inputs in unit_tiles.h's order. Values are inputs of as many tiles, `stride`
// bytes apart. Keys but those from `first` to `last` of the 32 are absent: zeros. So is a key with an element of
// kUnitLargest or more in magnitude, which makes the answer true. work: 96 vectors.
constexpr uint32_t kUnitLargest = 0x6000;  // 2^9 as FP16
bool unit_keys(const uint16_t* keys, uint32_t first, uint32_t last, uint32_t head_dim, uint8_t* work, uint8_t* tiles);
bool unit_values(const uint16_t* values, uint32_t first, uint32_t last, uint32_t head_dim, uint32_t stride,
                 uint8_t* tiles);

}  // namespace dsp
