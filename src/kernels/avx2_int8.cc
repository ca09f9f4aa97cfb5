// Integer products with AVX2's vpmaddubsw. It adds pairs of products with saturation to 16 bits, so each type is
// handled such that neither a pair nor a sum of pairs leaves these bits. Activations are within +-127.
//
//   4 to 6 bits  A pair is at most 63 * 127 * 2 = 16002. Pairs are added modulo 2^16 to a start of -center * sum(a).
//                The result is the sum of (q - center) * a, at most 16 * 16 * 127 = 32512 over a group of 5-bit quants
//                or 8 * 32 * 127 = 32512 over half a group of 6-bit quants. Unsigned sums (no center) are at most 16 *
//                15 * 127 = 30480 over a group of 4-bit and 8 * 31 * 127 = 31496 over half a group of 5-bit quants.
//   Q8_0         |w| times a with w's sign: a pair is at most 2 * 128 * 127 = 32512; added as 32 bits.
#include <immintrin.h>

#include "kernels/avx2.h"

namespace llada::kernels::avx2 {
namespace {

using Sum = __m256i;  // pairs of int16 per column; for Q8_0 int32
inline constexpr int kWideCenter = 0, kWideFlip = 0, kIntRows = 4;

inline Sum start_zero() { return _mm256_setzero_si256(); }
inline Sum start(__m256i pairs, int center) {
  return _mm256_mullo_epi16(pairs, _mm256_set1_epi16(static_cast<int16_t>(-center)));
}
// Keeps the compiler from reordering the additions, which would need a register for every product.
inline Sum in_order(Sum sum) {
  asm("" : "+x"(sum));
  return sum;
}
inline Sum step(Sum sum, __m256i w, __m256i a) { return in_order(_mm256_add_epi16(sum, _mm256_maddubs_epi16(w, a))); }
inline __m256i finish(Sum sum) { return _mm256_madd_epi16(sum, _mm256_set1_epi16(1)); }
inline Sum wide_step(Sum sum, __m256i w, __m256i a) {
  const __m256i products = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w));
  return in_order(_mm256_add_epi32(sum, _mm256_madd_epi16(products, _mm256_set1_epi16(1))));
}
inline __m256i wide_finish(Sum sum) { return sum; }

}  // namespace
}  // namespace llada::kernels::avx2

#define LLADA_VECTOR_NAMESPACE avx2
#include "kernels/x86_int8-inl.h"

namespace llada::kernels::avx2 {

static_assert(kTile == kColumnTile);
int64_t packed_bytes(DType type, int64_t n, int64_t k) { return packed_size(type, n, k); }
void pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  pack_tiles(weight, n0, n1, kWideFlip, packed);
}
int64_t activation_bytes(int64_t rows, int64_t k) { return ActivationLayout(rows, k).bytes; }
void quantize_rows(const float* x, int64_t rows, int64_t k, int64_t r0, int64_t r1, TypeSet, std::byte* activations) {
  quantize_range(x, rows, k, r0, r1, activations);
}
void pick_rows(const PickArgs& args) { pick_range(args); }
void matmul(const MatmulArgs& args) { multiply_int8(args); }

}  // namespace llada::kernels::avx2
