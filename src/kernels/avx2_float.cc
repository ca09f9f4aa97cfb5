// The AVX2 + FMA + F16C float kernels: x86_*-inl.h over vectors of 8 floats.
#include "kernels/avx2.h"

#define LLADA_VECTOR_NAMESPACE avx2
#include "kernels/avx2_vector-inl.h"

namespace llada::kernels::avx2 {
namespace {

// The numbers that fill the registers: rows x 2 vectors of sums in a matrix product (4 vectors for few rows), keys
// whose scores are summed at once, rows x vectors of sums in the V product.
constexpr int kMatmulRows = 6, kFewRows = 2, kAttentionKeys = 12, kMixRows = 6, kMixVectors = 2;

// x[i] lane j becomes x[j] lane i: fours within 128 bits, then the halves.
inline void transpose(Vec (&x)[kLanes]) {
  Vec fours[kLanes];
#pragma GCC unroll 2
  for (int i = 0; i < kLanes; i += 4) {
    const Vec a = _mm256_unpacklo_ps(x[i], x[i + 1]), b = _mm256_unpackhi_ps(x[i], x[i + 1]),
              c = _mm256_unpacklo_ps(x[i + 2], x[i + 3]), d = _mm256_unpackhi_ps(x[i + 2], x[i + 3]);
    fours[i] = _mm256_shuffle_ps(a, c, 0x44);
    fours[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
    fours[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
    fours[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    x[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
    x[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
  }
}

}  // namespace
}  // namespace llada::kernels::avx2

#include "kernels/x86_attention-inl.h"
#include "kernels/x86_float_matmul-inl.h"
#include "kernels/x86_rows-inl.h"

namespace llada::kernels::avx2 {

static_assert(kFloatTile == kColumnTile);
void use_row_kernels(KernelTable& table) { set_row_kernels(table); }
void float_attention(const AttentionArgs& args) { attention(args); }
int64_t float_packed_bytes(DType type, int64_t n, int64_t k) { return float_packed_size(type, n, k); }
void float_pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  pack_float(weight, n0, n1, packed);
}
void float_matmul(const MatmulArgs& args) { multiply_float(args); }

}  // namespace llada::kernels::avx2
