// A model of the matrix unit for machines without one. It does as hmx.h's packets do, with the accumulator as wide as
// public sources have it. Operands that hardware is known to fault on end the process.
//
// A tile is 32 x 32 FP16 numbers, 2,048 bytes; element (i, j) is halfword 64 * (i / 2) + 2 * j + i % 2. These are rows
// by inputs, inputs by outputs, or rows by outputs. Every sum is a significand of 30 bits, 22 of them behind the point,
// times a power of two. Eight products are brought to the largest exponent among them and added. Then that sum and the
// old one are brought to the larger exponent; bits that fall off are jammed into the last. Uncertain: how many products
// make such a group on which chip, and how bits fall off. No result here may depend on either by more than
// tests/hexagon_dsp/unit_bound.h allows.
#pragma once
#include <stdint.h>

extern "C" {
// How a model of a broken unit errs; every N-th: `period` of tiles of results.
enum HmxModelFault {
  HMX_RIGHT = 0,
  HMX_NO_SUMS = 1,  // nothing is done, so that counts of packets are those of the rest
  HMX_LIES = 2,     // every N-th tile of results has the wrong signs
  HMX_SWAPS = 3,    // rows of results lie where outputs should
  HMX_HANGS = 5,    // the N-th tile of results never comes
  HMX_DRIFTS = 4    // every N-th tile of results differs in its last digits
};
// The memory that operands lie in, for the thread that has the unit. Without one every operand is a fault.
void hmx_model_memory(const uint8_t* memory, uint32_t bytes, uint32_t fault, uint32_t period);

void hmx_model_table(const uint8_t* table);
void hmx_model_clear();
void hmx_model_pair(const uint8_t* rows, uint32_t rows_last, const uint8_t* weights, uint32_t weights_last);
void hmx_model_convert(uint32_t control);
void hmx_model_store(uint8_t* results, uint32_t range);
}
