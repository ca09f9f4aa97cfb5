// Integer products with AVX2's vpmaddubsw. It adds pairs of products with saturation to 16 bits, so each type is
// handled such that neither a pair nor a sum of pairs leaves these bits. Activations are within +-127.
//
//   4, 6 bits    A pair is at most 63 * 127 * 2 = 16002. Pairs are added modulo 2^16 to a start of -center * sum(a).
//                The result is the sum of (q - center) * a, at most 8 * 32 * 127 = 32512 over half a group of 6-bit
//                quants. Unsigned sums (no center) are at most 16 * 15 * 127 = 30480 over a group of 4-bit quants.
//   8 bits       A pair can leave 16 bits, so both are widened to words: vpmaddwd makes half as many products, and 32
//                bits hold their sums. A sign moved to the activations would be a third instruction for the two units
//                that multiply.
#include <immintrin.h>

#include "kernels/avx2.h"

#define LLADA_VECTOR_NAMESPACE avx2
#include "kernels/x86_int8_layout-inl.h"

namespace llada::kernels::avx2 {
namespace {

using Sum = __m256i;  // pairs of int16 per column; for 8 bits int32
inline constexpr int kWideCenter = 0, kWideFlip = 0, kIntRows = 6;
inline constexpr bool kWords = true;

// The address of row Row is one instruction's: no register holds it.
#define LLADA_AT(op, out)                                                       \
  if constexpr (Row % 3 == 0) LLADA_ASM(op " %c[at](%[base]), " out);           \
  if constexpr (Row % 3 == 1) LLADA_ASM(op " %c[at](%[base],%[stride]), " out); \
  if constexpr (Row % 3 == 2) LLADA_ASM(op " %c[at](%[base],%[stride],2), " out)

// The four bytes at offset At of row Row's group, eight times.
template <int Row, int At>
inline __attribute__((always_inline)) __m256i broadcast_at(const TileRows& rows) {
  __m256i a;
#define LLADA_ASM(load) \
  asm(load : [a] "=x"(a) : [base] "r"(Row < 3 ? rows.first : rows.fourth), [stride] "r"(rows.stride), [at] "i"(At))
  LLADA_AT("vpbroadcastd", "%[a]");
#undef LLADA_ASM
  return a;
}

// X and Y of a step times the activations at offset At of row Row. In assembly, because compilers reorder the additions
// and then need a register for every product: with 6 rows all 16 are taken.
#define LLADA_ASM_ADD(load, multiply, add)                                                                            \
  asm(load "\n\t" multiply " %[a], %[wx], %[p]\n\t" add " %[p], %[x], %[x]\n\t" multiply " %[a], %[wy], %[a]\n\t" add \
           " %[a], %[y], %[y]"                                                                                        \
      : [x] "+x"(sum[0]), [y] "+x"(sum[1]), [a] "=&x"(a), [p] "=&x"(p)                                                \
      : [wx] "x"(wx), [wy] "x"(wy), [base] "r"(Row < 3 ? rows.first : rows.fourth), [stride] "r"(rows.stride),        \
        [at] "i"(At))
// The same without sums so far.
#define LLADA_ASM_SET(load, multiply)                                                                          \
  asm(load "\n\t" multiply " %[y], %[wx], %[x]\n\t" multiply " %[y], %[wy], %[y]"                              \
      : [x] "=&x"(sum[0]), [y] "=&x"(sum[1])                                                                   \
      : [wx] "x"(wx), [wy] "x"(wy), [base] "r"(Row < 3 ? rows.first : rows.fourth), [stride] "r"(rows.stride), \
        [at] "i"(At))

template <class Form, int Row, int At>
inline __attribute__((always_inline)) void next_step(Sum (&sum)[2], __m256i wx, __m256i wy, const TileRows& rows) {
  __m256i a, p;
  if constexpr (Form::kWide) {
#define LLADA_ASM(load) LLADA_ASM_ADD(load, "vpmaddwd", "vpaddd")
    LLADA_AT("vpbroadcastd", "%[a]");
#undef LLADA_ASM
  } else {
#define LLADA_ASM(load) LLADA_ASM_ADD(load, "vpmaddubsw", "vpaddw")
    LLADA_AT("vpbroadcastd", "%[a]");
#undef LLADA_ASM
  }
}
template <class Form, int Row, int At, int StartAt>
inline __attribute__((always_inline)) void first_step(Sum (&sum)[2], __m256i wx, __m256i wy, const TileRows& rows) {
  if constexpr (Form::kWide) {
#define LLADA_ASM(load) LLADA_ASM_SET(load, "vpmaddwd")
    LLADA_AT("vpbroadcastd", "%[y]");
#undef LLADA_ASM
    return;
  } else {
#define LLADA_ASM(load) LLADA_ASM_SET(load, "vpmaddubsw")
    LLADA_AT("vpbroadcastd", "%[y]");
#undef LLADA_ASM
  }
  if constexpr (Form::kCenter > 0) {
    __m256i start = broadcast_at<Row, StartAt>(rows);
    if constexpr (Form::kCenter > 8) start = _mm256_mullo_epi16(start, _mm256_set1_epi16(Form::kCenter / 8));
    sum[0] = _mm256_add_epi16(sum[0], start), sum[1] = _mm256_add_epi16(sum[1], start);
  }
}

// Whole numbers of 16 bits in both halves of a lane, for the sums of even and of odd pairs.
inline __m256i factor_of(__m256i x) { return _mm256_blend_epi16(x, _mm256_slli_epi32(x, 16), 0xaa); }
template <class Form>
inline __m256i finish(Sum sum, __m256i factor) {
  return Form::kWide ? sum : _mm256_madd_epi16(sum, factor);
}

}  // namespace
}  // namespace llada::kernels::avx2

#include "kernels/x86_int8-inl.h"

namespace llada::kernels::avx2 {

static_assert(kTile == kColumnTile);
int64_t packed_bytes(DType type, int64_t n, int64_t k) { return packed_size(type, n, k); }
void pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  pack_tiles(weight, n0, n1, kWideFlip, kWords, packed);
}
int64_t activation_bytes(int64_t rows, int64_t k) { return activation_size(rows, k); }
void quantize_rows(const float* x, int64_t rows, int64_t k, int64_t r0, int64_t r1, TypeSet readers,
                   std::byte* activations) {
  quantize_range(x, k, r0, r1, activations);
  if ((readers & kWideTypes) != 0) widen_range(rows, k, r0, r1, activations);
}
void pick_rows(const PickArgs& args) { pick_range(args); }
void matmul(const MatmulArgs& args) { multiply_int8(args); }

}  // namespace llada::kernels::avx2
