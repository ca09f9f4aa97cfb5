// Activations as the matrix kernels read them: rows in groups that a kernel multiplies together, each row in blocks
// of 32 inputs with a scale of its own.
//
// int8 (for Q4_0 and Q8_0 tiles): scale s = max|x| / 127, q = round-to-nearest-even(x / s), blocks below 2^-120 are
// zero. q and s are those of the CPU kernels, bit for bit. s is kept as mantissa * 2^(exponent - shift') with a
// mantissa of 15 bits, relative to the row's largest, so it is off by at most 2^-15 of itself. int16 (for F16 tiles): s
// is a power of two, |q| <= 2^14, q split in bytes: q = 256 * high + low, both signed.
//
// A row with a value that is not finite becomes a sum of 1 with an exponent so large that every product is infinite,
// whatever the weights. Integers have no other way to carry it to the head, where it is reported.
//
// A product then is, in integers (P: the sum over a block of w.q * a.q, c = round(w.scale * a.mantissa / 2^15)):
//   Q4_0: p = P * c    Q8_0: p = floor(P * c / 2^4)    F16: p = floor(floor(P / 2^8) * c / 2^11)
//   sum = bias + sum over blocks of floor(p / 2^shift)    y = sum * 2^(w.exponent + a.exponent), one rounding
// |p| < 2^30 always; `shift` grows with the number of blocks so that no sum leaves 32 bits. bias is half a unit for
// every block whose floor has a fraction to lose. All of it is integer arithmetic in a fixed order. So the result of a
// row does not depend on other rows, and every build of this code gives the same bits.
#pragma once
#include <stdint.h>

namespace dsp {

constexpr uint32_t kBlock = 32;

enum class Format : uint8_t { q4, q8, f16 };  // of the weights that the activations meet

// The fields of a group of rows beside its blocks.
struct RowGroup {
  int32_t bias[8];
  int32_t exponent[8];
};

// Two words that are loaded together: kernels are short of load slots.
struct Words {
  int64_t both;
  int32_t low() const { return static_cast<int32_t>(both); }
  int32_t high() const { return static_cast<int32_t>(both >> 32); }
};

// One block of R rows. A word of `q` holds 4 inputs of one row: q[g][r] the inputs 8 * g to 8 * g + 7. A word of
// correction and mantissa pairs holds 16 bits of each of two rows, the even one low. Shifts are by row.
template <int R>
struct BlockQ4 {
  Words q[4][R];
  Words pair[R / 2];  // low: correction = -8 * sum of the row's q in the block; high: mantissa
  Words shift[R / 2];
};
template <int R>
struct BlockQ8 {
  Words q[4][R];
  Words correction[R / 2];  // by row: -128 * sum
  Words mantissa[R / 4];    // low: rows 0 and 1
  Words shift[R / 2];
  Words unused[R / 4];
};
struct BlockF16 {  // 4 rows
  Words high[4][4], low[4][4];
  Words correction[2];  // by row: -128 * sum of the 16-bit q
  Words mantissa[1];
  Words shift[2];
  Words unused;
};

// Rows of the largest group. The host's registers hold eight rows of Q8_0 products, the vector unit's four.
constexpr uint32_t most_rows(Format format) {
#ifdef __hexagon__
  return format == Format::q4 ? 8 : 4;
#else
  return format == Format::f16 ? 4 : 8;
#endif
}

inline uint32_t blocks_of(uint32_t inputs) { return (inputs / kBlock + 1) & ~1u; }  // even
uint32_t group_rows(Format format, uint32_t rows, uint32_t first);  // rows that the group from row `first` has room for
uint32_t groups_of(Format format, uint32_t rows);
uint32_t group_bytes(Format format, uint32_t rows_in_group, uint32_t inputs);  // with its RowGroup
uint32_t activation_bytes(Format format, uint32_t rows, uint32_t inputs);

// The shift that keeps a sum over the blocks within 32 bits.
int32_t base_shift(uint32_t blocks);
// A block's product is p * 2^unit.
int32_t unit_exponent(Format format);

// Fills the group of rows from `first`. Row r of x starts at x + r * stride, a multiple of 128 bytes. work: of this
// caller, blocks_of(inputs) words rounded up to 128 bytes.
void quantize_group(Format format, const float* x, uint32_t stride, uint32_t rows, uint32_t inputs, uint32_t first,
                    uint32_t* work, uint8_t* group);

// The definition of a row of a group in plain C++. work: blocks_of(inputs) words.
namespace plain {
void quantize_row(Format format, const float* row, uint32_t inputs, uint32_t r, uint32_t rows_in_group, uint32_t* work,
                  uint8_t* group);
}

}  // namespace dsp
