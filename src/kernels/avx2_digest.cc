// Attention over digests with AVX2's vpmaddubsw. Its sums of two products must fit 16 bits, so keys are multiplied with
// the query's sign moved to them (2 * 127 * 127), and weights have seven bits.
//
// Measured: one thread of the machine of docs/benchmarks.md, a head of 128 over 4,096 keys, milliseconds (in brackets
// attention in floats). One row takes as long as 16, the rows of a tile.
//                32 rows       8 rows        1 row
//   AVX2         0.36 (0.92)   0.19 (0.23)   0.18 (0.15)
//   AVX-VNNI     0.21          0.10          0.10
//   AVX-512      0.095 (0.41)  0.054 (0.17)  0.054 (0.16)
#include "kernels/avx2.h"

#define LLADA_VECTOR_NAMESPACE avx2::digests
#include "kernels/avx2_vector-inl.h"

namespace llada::kernels::avx2::digests {
namespace {

inline constexpr float kMostWeight = 127;
inline constexpr int32_t kKeyFlip = 0, kValueFlip = 0;

template <bool kMix>
inline Ints step(Ints sum, Ints row, Ints column) {
  const Ints pairs = kMix ? _mm256_maddubs_epi16(row, column)
                          : _mm256_maddubs_epi16(_mm256_abs_epi8(row), _mm256_sign_epi8(column, row));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

}  // namespace
}  // namespace llada::kernels::avx2::digests

#include "kernels/avx2_digest-inl.h"

namespace llada::kernels::avx2 {

int64_t digest_bytes(DType kv_type, int64_t positions, int64_t head_dim) {
  return digests::digest_size(kv_type, positions, head_dim);
}
void digest(const DigestArgs& args) { digests::renew_digest(args); }
void digest_attention(const AttentionArgs& args) { digests::attend_by_digest(args); }

}  // namespace llada::kernels::avx2
