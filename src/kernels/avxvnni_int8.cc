// Integer products with AVX-VNNI's vpdpbusd on 256-bit vectors: four products of unsigned quants and signed
// activations are added to 32 bits without an intermediate limit. Q8_0 is stored as q + 128. Layouts are
// those of AVX2 otherwise; activations are the same.
#include <immintrin.h>

#include "kernels/avx2.h"

#define LLADA_VECTOR_NAMESPACE avxvnni
#include "kernels/x86_int8_layout-inl.h"

namespace llada::kernels::avxvnni {
namespace {

using Sum = __m256i;  // int32 per column
inline constexpr int kWideCenter = 128, kWideFlip = 0x80, kIntRows = 6;
inline constexpr bool kWords = false;

template <int Row, int At>
inline __m256i broadcast_at(const TileRows& rows) {
  return broadcast_32((Row < 3 ? rows.first : rows.fourth) + Row % 3 * rows.stride + At);
}
template <class Form, int Row, int At>
inline void next_step(Sum (&sum)[2], __m256i wx, __m256i wy, const TileRows& rows) {
  const __m256i a = broadcast_at<Row, At>(rows);
  sum[0] = _mm256_dpbusd_avx_epi32(sum[0], wx, a), sum[1] = _mm256_dpbusd_avx_epi32(sum[1], wy, a);
}
template <class Form, int Row, int At, int StartAt>
inline void first_step(Sum (&sum)[2], __m256i wx, __m256i wy, const TileRows& rows) {
  sum[0] = sum[1] = Form::kCenter == 0
                        ? _mm256_setzero_si256()
                        : _mm256_madd_epi16(broadcast_at<Row, StartAt>(rows), _mm256_set1_epi16(Form::kCenter / 8));
  next_step<Form, Row, At>(sum, wx, wy, rows);
}
inline __m256i factor_of(__m256i x) { return x; }
template <class Form>
inline __m256i finish(Sum sum, __m256i factor) {
  return Form::kType == DType::Q6_K ? _mm256_mullo_epi32(sum, factor) : sum;
}

}  // namespace
}  // namespace llada::kernels::avxvnni

#include "kernels/x86_int8-inl.h"

namespace llada::kernels::avxvnni {

static_assert(kTile == avx2::kColumnTile);
void pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  pack_tiles(weight, n0, n1, kWideFlip, kWords, packed);
}
void matmul(const MatmulArgs& args) { multiply_int8(args); }

}  // namespace llada::kernels::avxvnni
