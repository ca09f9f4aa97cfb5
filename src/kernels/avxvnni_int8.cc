// Integer products with AVX-VNNI's vpdpbusd on 256-bit vectors: four products of unsigned quants and signed
// activations are added to 32 bits without an intermediate limit. Q8_0 is stored as q + 128. Layouts are
// those of AVX2 otherwise; activations are the same.
#include <immintrin.h>

#include "kernels/avx2.h"

namespace llada::kernels::avxvnni {
namespace {

using Sum = __m256i;  // int32 per column
inline constexpr int kWideCenter = 128, kWideFlip = 0x80, kIntRows = 6;

inline Sum start_zero() { return _mm256_setzero_si256(); }
inline Sum start(__m256i pairs, int center) {
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(static_cast<int16_t>(-center)));
}
inline Sum step(Sum sum, __m256i w, __m256i a) { return _mm256_dpbusd_avx_epi32(sum, w, a); }
inline __m256i finish(Sum sum) { return sum; }
inline Sum wide_step(Sum sum, __m256i w, __m256i a) { return step(sum, w, a); }
inline __m256i wide_finish(Sum sum) { return sum; }

}  // namespace
}  // namespace llada::kernels::avxvnni

#define LLADA_VECTOR_NAMESPACE avxvnni
#include "kernels/x86_int8-inl.h"

namespace llada::kernels::avxvnni {

static_assert(kTile == avx2::kColumnTile);
void pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  pack_tiles(weight, n0, n1, kWideFlip, packed);
}
void matmul(const MatmulArgs& args) { multiply_int8(args); }

}  // namespace llada::kernels::avxvnni
