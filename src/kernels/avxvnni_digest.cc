// Attention over digests with AVX-VNNI's vpdpbusd: keys are unsigned, 128 more than they mean.
#include "kernels/avx2.h"

#define LLADA_VECTOR_NAMESPACE avxvnni::digests
#include "kernels/avx2_vector-inl.h"

namespace llada::kernels::avxvnni::digests {
namespace {

inline constexpr float kMostWeight = 255;
inline constexpr int32_t kKeyFlip = static_cast<int32_t>(0x80808080), kValueFlip = 0;

#ifdef LLADA_AVXVNNI_EVEX
#define LLADA_ENCODING "%{evex%} "
#else
#define LLADA_ENCODING "%{vex%} "
#endif

// As assembly: GCC 12 copies every sum around a loop over the intrinsic.
template <bool kMix>
inline Ints step(Ints sum, Ints row, Ints column) {
  const Ints unsigned_bytes = kMix ? row : column, signed_bytes = kMix ? column : row;
  asm(LLADA_ENCODING "vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(unsigned_bytes), "x"(signed_bytes));
  return sum;
}

}  // namespace
}  // namespace llada::kernels::avxvnni::digests

#include "kernels/avx2_digest-inl.h"

namespace llada::kernels::avxvnni {

void use_digests(KernelTable& table) { digests::set_digest_kernels<avx2::float_attention>(table); }

}  // namespace llada::kernels::avxvnni
