// Products by the outer products of SME (Armv9.2-A) for weights of Q4_0 and Q8_0, in floats. One FMOPA multiplies two
// inputs of as many rows and columns as a vector of SVL bits has words, and adds them to sums that stay in ZA. Sums of
// int8 would have to leave ZA for the scales of each group, at several times the instructions (docs/lab/kernels.md).
//
// Both sides are F16. An activation is its quant times its group's scale, as every other table has them, in units of a
// power of two of its row. A weight is its quant times its group's scale in units of one of its column. Each is rounded
// once, by 2^-11 of itself at most. Less is kept of values below 2^-29 of the largest of their row, and of scales below
// 2^-14 of the largest of their column (Q8_0: 2^-22). Sums are floats.
//
// Every element is ((sum over pairs of inputs, ascending) * column's unit) * row's unit. The bits are the same for any
// batch, any range of columns and any SVL from 128 to 2048 bits. Nothing that is packed depends on SVL.
//
// Packed weights: panels of kPanel columns, the last one with those that there are.
//   quants     for every pair of inputs, for every column: Q4_0 a byte, the first input in the low nibble, two's
//              complement; Q8_0 two bytes
//   scales     for every group, for every column: F16, below 1 in 4096 of the column's units; Q8_0: below 256 in units
//   exponents  for every column: a byte, the power of two that is its unit
// Activations, behind those of neon_i8mm, which all other types read:
//   values     blocks of kBlock rows, the last one with those that there are: for every pair of inputs, for every row:
//              two F16
//   units      for every row: a float; NaN where the row has a value that is not finite
#pragma once
#include "kernels/kernels.h"
#include "tensor/dtype.h"

namespace llada::kernels::sme {

inline constexpr int64_t kGroup = 32, kPanel = 64, kBlock = 64;

constexpr bool multiplies(DType computed) { return computed == DType::Q4_0 || computed == DType::Q8_0; }

constexpr int64_t pair_bytes(DType type) { return type == DType::Q4_0 ? 1 : 2; }  // of a column's two quants
constexpr int64_t quant_bytes(DType type, int64_t k) { return k / 2 * pair_bytes(type); }
constexpr int64_t column_bytes(DType type, int64_t k) { return quant_bytes(type, k) + k / kGroup * 2 + 1; }

constexpr int64_t units_offset(int64_t rows, int64_t k) { return rows * k * 2; }
constexpr int64_t activation_bytes(int64_t rows, int64_t k) { return units_offset(rows, k) + rows * 4; }

// For Q4_0 or Q8_0: columns [n0, n1) of which n0 is a multiple of kPanel.
void pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed);
// Row r of `rows`, from k floats. `activations`: those of this file.
void quantize_row(const float* x, int64_t k, int64_t rows, int64_t r, std::byte* activations);
// args.activations: those of this file; sme2: whether the processor has SME2, which changes no bit. TPIDR2_EL0 is zero:
// nothing else in this process keeps ZA over a call.
void matmul(const MatmulArgs& args, bool sme2);

}  // namespace llada::kernels::sme
