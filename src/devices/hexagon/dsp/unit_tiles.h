// The matrix unit's operands, rows and weights as tiles of FP16 (hmx_model.h has the layout), and its results as floats
// again. All of it is integer arithmetic in a fixed order, so every build gives the same bits. No vector unit's
// float instruction is needed.
//
// Rows: x = a * 2^e with e of the row, such that its largest magnitude lies in [2^7, 2^8). The number a is rounded to
// 11 bits, to nearest, ties to even. Magnitudes below 2^-21 of the power of two at or below the row's largest are zero.
// So are those below 2^-126 and rows below 2^-119. A row with a value that is not finite becomes zeros with the
// exponent kUnitNotFinite, of which every result is infinite, as by the integer kernels (activations.h).
//
// Weights: a tile's w = scale * q * 2^(exponent - 15) becomes b = scale * q * 2^-u, u = unit_weight_shift(). Scale and
// q are rounded to 11 bits, then their product is: each to nearest, ties away from zero. Scales and q of Q4_0 and Q8_0
// have no more bits than that, so there is one rounding. Below 2^-14 it is zero, which F16 alone reaches. The magnitude
// of b is at most 2^4 for Q4_0, and 2^8 for others unless the tile was not made by pack.h.
//
// Results: sums of up to kUnitMostInputs products times 2^-t, t = unit_table_shift(), rounded to FP16, whose range they
// keep to. Then y = result * 2^(exponent - 15 + u + e + t) is exact, but zero below normal numbers.
//
// The tiles have each four inputs in the order 0 2 1 3: so bytes of weights widen without being moved.
#pragma once
#include <stdint.h>

#include "devices/hexagon/dsp/activations.h"
#include "devices/hexagon/dsp/hmx.h"

namespace dsp {

constexpr uint32_t kUnitMostInputs = 12288;
constexpr int32_t kUnitNotFinite = 4000;

// 12,288 products of a row stay below 2^(8 + 4 + 13.6 - 10) for Q4_0, and 2^(8 + 8 + 13.6 - 14) for others: 65,504 is
// the largest number.
constexpr int32_t unit_table_shift(Format format) { return format == Format::q4 ? 10 : 14; }
constexpr int32_t unit_weight_shift(Format format) { return format == Format::f16 ? 21 : 14; }

// Two rows, which share vectors (null: of zeros), to a tile's place of theirs, and block b 2,048 * b bytes further.
void unit_rows(const float* even, const float* odd, uint32_t blocks, uint8_t* to, int32_t exponents[2]);
// Blocks [first, last) of a tile of 32 outputs, one behind the other; first is even.
void unit_weights(Format format, const uint8_t* tile, uint32_t first, uint32_t last, uint8_t* to);
// `rows` rows of a tile of results. exponents: of the rows; tile: of the weights; row r goes to y + r * stride.
void unit_results(Format format, const uint8_t* results, const int32_t* exponents, const uint8_t* tile, uint32_t rows,
                  float* y, uint32_t stride, uint32_t columns);

// Whether y may be the product of a row with output n of a tile, which is computed again in scalar floats. It may be
// off by the roundings above, and each step of a sum by 2^-21 of it. True where no float could tell.
bool unit_sum_fits(Format format, const uint8_t* tile, uint32_t n, const float* x, uint32_t blocks, float y);

// The definitions in plain C++.
namespace plain {
void unit_rows(const float* even, const float* odd, uint32_t blocks, uint8_t* to, int32_t exponents[2]);
void unit_weights(Format format, const uint8_t* tile, uint32_t first, uint32_t last, uint8_t* to);
}  // namespace plain

}  // namespace dsp
