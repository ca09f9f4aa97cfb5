// Attention over digests with AVX2's vpmaddubsw. Its sums of two products must fit 16 bits, so keys are multiplied with
// the query's sign moved to them (2 * 127 * 127), and weights have seven bits.
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

void use_digests(KernelTable& table) { digests::set_digest_kernels<avx2::float_attention>(table); }

}  // namespace llada::kernels::avx2
