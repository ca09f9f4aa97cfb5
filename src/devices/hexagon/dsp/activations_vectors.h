// One row of a group of activations on the vector unit, to the bits of activations.cc.
#pragma once
#include "devices/hexagon/dsp/activations.h"

namespace dsp {

// False, with nothing written but `work`, where the row has a number that is not finite, or a block with none of 2^-97
// or more but one that is not zero: a matter of the plain code. row: aligned to 128 bytes, `inputs` of them. work: the
// blocks' words, rounded up to 128 bytes.
template <class Block>
bool quantize_row(Format format, const float* row, uint32_t inputs, uint32_t r, uint32_t* work, RowGroup& head,
                  Block* blocks);

}  // namespace dsp
