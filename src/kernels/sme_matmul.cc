// The products of sme.h. Each pass enters streaming mode, sums up a rectangle of four tiles of ZA over all inputs,
// stores it and leaves. All of that is one assembly statement, since no other vector instruction may run in between.
// The assembler is told of SME only there, and the file is compiled for any Armv8-A.
#include <algorithm>

#include "kernels/sme.h"

namespace llada::kernels::sme {
namespace {

struct Pass {
  const std::byte *quants, *scales, *exponents;  // of its first column
  const std::byte* values;                       // of its first row
  const float* units;
  float* y;
  int64_t quant_pitch, scale_pitch, value_pitch, y_pitch;  // bytes: between pairs, groups, pairs, rows
  int64_t groups, rows, columns;                           // as many as there are, at most those of its tiles
};

// How quants become columns of F16, which are then multiplied by scales of the same form.
//   bytes    converted
//   nibbles  a byte of two, its sign extended to 32 bits, is shifted: the low one times 4096, the high one; converted
//   table    nibbles by SME2's look-up, with SME2's loads of many vectors: the same products in fewer instructions
enum class Form : uint8_t { bytes, nibbles, table };

// Registers: p0 all; p1 to p4 the columns of up to four tiles, behind these the rows of up to four, for SME2 pn8 all of
// these and p6 the bytes of all columns. z0 to z3 rows, z4 to z7 columns, z8 to z11 scales and then columns' units, z12
// factors of the scales of a pair's inputs, z13 a table's nibbles. x16 values.
// X(index, predicate) for a tile's rows; X(index, predicate, values, scales) for its columns, in three shapes.
#define LLADA_ROWS_1(X) X(0, 5)
#define LLADA_ROWS_2(X) X(0, 3) X(1, 4)
#define LLADA_ROWS_4(X) X(0, 2) X(1, 3) X(2, 4) X(3, 5)
#define LLADA_COLUMNS_1(X) X(0, 1, 4, 8)
#define LLADA_COLUMNS_2(X) LLADA_COLUMNS_1(X) X(1, 2, 5, 9)
#define LLADA_COLUMNS_4(X) LLADA_COLUMNS_2(X) X(2, 3, 6, 10) X(3, 4, 7, 11)

#define LLADA_MASK_ROWS(r, p) "whilelt p" #p ".h, x13, %[rows2]\n inch x13\n"
#define LLADA_MASK_COLUMNS(c, p, z, s) "whilelt p" #p ".h, x13, %[columns2]\n inch x13\n"
#define LLADA_LOAD_ROWS(r, p) "ld1w {z" #r ".s}, p" #p "/z, [x16, #" #r ", mul vl]\n"
#define LLADA_LOAD_NIBBLES(c, p, z, s) "ld1sb {z" #z ".s}, p" #p "/z, [%[quants], #" #c ", mul vl]\n"
#define LLADA_LOAD_BYTES(c, p, z, s) "ld1sb {z" #z ".h}, p" #p "/z, [%[quants], #" #c ", mul vl]\n"
#define LLADA_SPREAD(c, p, z, s) "lsl z" #z ".s, z" #z ".s, #12\n"
#define LLADA_CONVERT(c, p, z, s) "scvtf z" #z ".h, p0/m, z" #z ".h\n"
#define LLADA_SCALE(c, p, z, s) "fmul z" #z ".h, z" #z ".h, z" #s ".h\n"
#define LLADA_LOAD_SCALES(c, p, z, s) \
  "ld1h {z" #s ".s}, p" #p "/z, [%[scales], #" #c ", mul vl]\n trn1 z" #s ".h, z" #s ".h, z" #s ".h\n"
#define LLADA_RAISE_SCALES(c, p, z, s) "fmul z" #s ".h, z" #s ".h, z12.h\n"
#define LLADA_OUTER(tile, r, z) "fmopa za" #tile ".s, p0/m, p0/m, z" #r ".h, z" #z ".h\n"
#define LLADA_OUTER_1x4 LLADA_OUTER(0, 0, 4) LLADA_OUTER(1, 0, 5) LLADA_OUTER(2, 0, 6) LLADA_OUTER(3, 0, 7)
#define LLADA_OUTER_2x2 LLADA_OUTER(0, 0, 4) LLADA_OUTER(1, 0, 5) LLADA_OUTER(2, 1, 4) LLADA_OUTER(3, 1, 5)
#define LLADA_OUTER_4x1 LLADA_OUTER(0, 0, 4) LLADA_OUTER(1, 1, 4) LLADA_OUTER(2, 2, 4) LLADA_OUTER(3, 3, 4)

#define LLADA_FACTORS_bytes 0
#define LLADA_PREPARE_bytes(shape) ""
#define LLADA_SCALES_bytes(columns) columns(LLADA_LOAD_SCALES)
#define LLADA_LOADS_bytes(rows, columns, shape) \
  rows(LLADA_LOAD_ROWS) columns(LLADA_LOAD_BYTES) columns(LLADA_CONVERT) columns(LLADA_SCALE)

#define LLADA_FACTORS_nibbles 0x6c003c00  // 1, 4096
#define LLADA_PREPARE_nibbles(shape) ""
#define LLADA_SCALES_nibbles(columns) columns(LLADA_LOAD_SCALES) columns(LLADA_RAISE_SCALES)
#define LLADA_LOADS_nibbles(rows, columns, shape) \
  rows(LLADA_LOAD_ROWS) columns(LLADA_LOAD_NIBBLES) columns(LLADA_SPREAD) columns(LLADA_CONVERT) columns(LLADA_SCALE)

// SME2 in words, which assemblers of 2022 do not know.
#define LLADA_FACTORS_table 0x6c006c00  // 4096, 4096
#define LLADA_PREPARE_table(shape) \
  "whilelt p6.b, xzr, %[columns]\n .inst 0xe11f81a0 // ldr zt0, [x13]\n mov x13, #0\n" LLADA_MASK_ALL_ROWS_##shape
#define LLADA_SCALES_table(columns) LLADA_SCALES_nibbles(columns)
#define LLADA_LOADS_table(rows, columns, shape) LLADA_LOOK_UP_##shape columns(LLADA_SCALE)
#define LLADA_MASK_ALL_ROWS_1x4 ""
#define LLADA_MASK_ALL_ROWS_2x2 ".inst 0x25af45b0 // whilelt pn8.s, x13, x15, vlx2\n"
#define LLADA_MASK_ALL_ROWS_4x1 ".inst 0x25af65b0 // whilelt pn8.s, x13, x15, vlx4\n"
#define LLADA_LOAD_TABLE "ld1b {z13.b}, p6/z, [%[quants]]\n"
#define LLADA_LOOK_UP_1x4 \
  "ld1w {z0.s}, p5/z, [x16]\n" LLADA_LOAD_TABLE ".inst 0xc08a91a4 // luti4 {z4.h-z7.h}, zt0, z13[0]\n"
#define LLADA_LOOK_UP_2x2                                                 \
  ".inst 0xa0404200 // ld1w {z0.s-z1.s}, pn8/z, [x16]\n" LLADA_LOAD_TABLE \
  ".inst 0xc08a51a4 // luti4 {z4.h-z5.h}, zt0, z13[0]\n"
#define LLADA_LOOK_UP_4x1                                                 \
  ".inst 0xa040c200 // ld1w {z0.s-z3.s}, pn8/z, [x16]\n" LLADA_LOAD_TABLE \
  ".inst 0xc0ca11a4 // luti4 z4.h, zt0, z13[0]\n"

#define LLADA_LOAD_UNITS(c, p, z, s)                                                                          \
  "ld1sb {z" #s ".s}, p" #p "/z, [%[exponents], #" #c ", mul vl]\n add z" #s ".s, z" #s ".s, #127\n lsl z" #s \
  ".s, z" #s ".s, #23\n"
#define LLADA_STORE(tile, c, p, z, s)                                                                          \
  "mova z" #z ".s, p0/m, za" #tile "h.s[w12, 0]\n fmul z" #z ".s, z" #z ".s, z" #s ".s\n fmul z" #z ".s, z" #z \
  ".s, z0.s\n st1w {z" #z ".s}, p" #p ", [%[y], #" #c ", mul vl]\n"
// The rows of a row of tiles, until none is left.
#define LLADA_STORE_ROWS(stores)                                                                             \
  "mov w12, #0\n 2: ld1rw {z0.s}, p0/z, [%[units]]\n" stores                                                 \
  "add %[units], %[units], #4\n add %[y], %[y], %[y_pitch]\n add w12, w12, #1\n subs %[rows], %[rows], #1\n" \
  "b.eq 3f\n cmp x12, x14\n b.lt 2b\n"
#define LLADA_STORES_1x4                                                                             \
  LLADA_STORE_ROWS(LLADA_STORE(0, 0, 1, 4, 8) LLADA_STORE(1, 1, 2, 5, 9) LLADA_STORE(2, 2, 3, 6, 10) \
                       LLADA_STORE(3, 3, 4, 7, 11))
#define LLADA_STORES_2x2                                                  \
  LLADA_STORE_ROWS(LLADA_STORE(0, 0, 1, 4, 8) LLADA_STORE(1, 1, 2, 5, 9)) \
  LLADA_STORE_ROWS(LLADA_STORE(2, 0, 1, 4, 8) LLADA_STORE(3, 1, 2, 5, 9))
#define LLADA_STORES_4x1                       \
  LLADA_STORE_ROWS(LLADA_STORE(0, 0, 1, 4, 8)) \
  LLADA_STORE_ROWS(LLADA_STORE(1, 0, 1, 4, 8)) \
  LLADA_STORE_ROWS(LLADA_STORE(2, 0, 1, 4, 8)) LLADA_STORE_ROWS(LLADA_STORE(3, 0, 1, 4, 8))

#define LLADA_PASS(form, height, width, shape) \
  asm volatile(".arch_extension sme\n smstart\n ptrue p0.b\n cntw x14\n dup z12.s, %w[factors]\n" \
               "mov x13, %[nibbles]\n mov x15, %[rows]\n mov x16, %[values]\n" LLADA_PREPARE_##form(shape) \
               "mov x13, #0\n" LLADA_COLUMNS_##width(LLADA_MASK_COLUMNS) \
               "mov x13, #0\n" LLADA_ROWS_##height(LLADA_MASK_ROWS) "zero {za}\n" \
               "1:\n" LLADA_SCALES_##form(LLADA_COLUMNS_##width) "add %[scales], %[scales], %[scale_pitch]\n" \
               ".rept 16\n" LLADA_LOADS_##form(LLADA_ROWS_##height, LLADA_COLUMNS_##width, shape) \
               LLADA_OUTER_##shape "add x16, x16, %[value_pitch]\n add %[quants], %[quants], %[quant_pitch]\n" \
               ".endr\n subs %[groups], %[groups], #1\n b.ne 1b\n" \
               LLADA_COLUMNS_##width(LLADA_LOAD_UNITS) LLADA_STORES_##shape "3: smstop\n .arch_extension nosme\n" \
               : [quants] "+&r"(p.quants), [scales] "+&r"(p.scales), [units] "+&r"(p.units), [y] "+&r"(p.y), \
                 [groups] "+&r"(p.groups), [rows] "+&r"(p.rows) \
               : [values] "r"(p.values), [exponents] "r"(p.exponents), [quant_pitch] "r"(p.quant_pitch), \
                 [scale_pitch] "r"(p.scale_pitch), [value_pitch] "r"(p.value_pitch), [y_pitch] "r"(p.y_pitch), \
                 [rows2] "r"(2 * p.rows), [columns] "r"(p.columns), [columns2] "r"(2 * p.columns), \
                 [nibbles] "r"(kNibbles), [factors] "r"(LLADA_FACTORS_##form) \
               : "x12", "x13", "x14", "x15", "x16", "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", \
                 "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", \
                 "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "p0", "p1", "p2", "p3", "p4", \
                 "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13", "p14", "p15")
#define LLADA_SHAPES(form)                                   \
  if constexpr (kForm == Form::form) {                       \
    if constexpr (kHeight == 1) LLADA_PASS(form, 1, 4, 1x4); \
    if constexpr (kHeight == 2) LLADA_PASS(form, 2, 2, 2x2); \
    if constexpr (kHeight == 4) LLADA_PASS(form, 4, 1, 4x1); \
  }

// Two's complement as F16, a word each.
alignas(64) constexpr uint32_t kNibbles[16] = {0,      0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700,
                                               0xc800, 0xc700, 0xc600, 0xc500, 0xc400, 0xc200, 0xc000, 0xbc00};

// kHeight by 4 / kHeight tiles.
template <Form kForm, int kHeight>
__attribute__((noinline)) void multiply_pass(Pass p){LLADA_SHAPES(bytes) LLADA_SHAPES(nibbles) LLADA_SHAPES(table)}

int64_t vector_words() {
  int64_t bytes;
  asm(".arch_extension sme\n rdsvl %0, #1\n .arch_extension nosme\n" : "=r"(bytes));
  return bytes / 4;
}

template <DType kType, Form kForm>
void multiply(const MatmulArgs& a) {
  const int64_t words = vector_words(), groups = a.k / kGroup;
  for (int64_t c0 = a.n0; c0 < a.n1; c0 += kPanel) {
    const int64_t width = std::min(kPanel, a.n - c0);
    const std::byte* const quants = a.weights + c0 * column_bytes(kType, a.k);
    const std::byte* const scales = quants + width * quant_bytes(kType, a.k);
    const std::byte* const exponents = scales + width * groups * 2;
    for (int64_t r0 = 0; r0 < a.rows; r0 += kBlock) {
      const int64_t height = std::min(kBlock, a.rows - r0);
      for (int64_t r = 0, tiles; r < height; r += tiles * words) {
        const int64_t left = height - r;
        tiles = left > 2 * words ? 4 : left > words ? 2 : 1;
        const int64_t columns = 4 / tiles * words;
        for (int64_t c = 0; c < width; c += columns) {
          Pass p;
          p.quants = quants + c * pair_bytes(kType), p.scales = scales + c * 2, p.exponents = exponents + c;
          p.values = a.activations + (r0 * a.k / 2 + r) * 4;
          p.units = reinterpret_cast<const float*>(a.activations + units_offset(a.rows, a.k)) + r0 + r;
          p.y = a.y + (r0 + r) * a.y_stride + c0 + c;
          p.quant_pitch = width * pair_bytes(kType), p.scale_pitch = width * 2, p.value_pitch = height * 4;
          p.y_pitch = a.y_stride * 4;
          p.groups = groups, p.rows = std::min(left, tiles * words), p.columns = std::min(columns, width - c);
          tiles == 4   ? multiply_pass<kForm, 4>(p)
          : tiles == 2 ? multiply_pass<kForm, 2>(p)
                       : multiply_pass<kForm, 1>(p);
        }
      }
    }
  }
}

}  // namespace

void matmul(const MatmulArgs& args, bool sme2) {
  if (args.type == DType::Q8_0) return multiply<DType::Q8_0, Form::bytes>(args);
  sme2 ? multiply<DType::Q4_0, Form::table>(args) : multiply<DType::Q4_0, Form::nibbles>(args);
}

}  // namespace llada::kernels::sme
