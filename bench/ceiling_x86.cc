// x86: vpdpbusd and vfmadd231ps on 16 independent 512-bit registers. Inline assembly, so that no compiler
// flag is needed and no compiler can shorten the loop.
#include "ceiling.h"

namespace llada::bench {
namespace {

bool has_vnni() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni"); }

#define LLADA_SIXTEEN(op)                                                                                  \
  op " %%zmm30, %%zmm31, %%zmm0\n" op " %%zmm30, %%zmm31, %%zmm1\n" op " %%zmm30, %%zmm31, %%zmm2\n" op    \
     " %%zmm30, %%zmm31, %%zmm3\n" op " %%zmm30, %%zmm31, %%zmm4\n" op " %%zmm30, %%zmm31, %%zmm5\n" op    \
     " %%zmm30, %%zmm31, %%zmm6\n" op " %%zmm30, %%zmm31, %%zmm7\n" op " %%zmm30, %%zmm31, %%zmm8\n" op    \
     " %%zmm30, %%zmm31, %%zmm9\n" op " %%zmm30, %%zmm31, %%zmm10\n" op " %%zmm30, %%zmm31, %%zmm11\n" op  \
     " %%zmm30, %%zmm31, %%zmm12\n" op " %%zmm30, %%zmm31, %%zmm13\n" op " %%zmm30, %%zmm31, %%zmm14\n" op \
     " %%zmm30, %%zmm31, %%zmm15\n"
#define LLADA_CLEAR                                                                                       \
  "vpxord %%zmm30, %%zmm30, %%zmm30\n vpxord %%zmm31, %%zmm31, %%zmm31\n vpxord %%zmm0, %%zmm0, %%zmm0\n" \
  "vmovdqa64 %%zmm0, %%zmm1\n vmovdqa64 %%zmm0, %%zmm2\n vmovdqa64 %%zmm0, %%zmm3\n"                      \
  "vmovdqa64 %%zmm0, %%zmm4\n vmovdqa64 %%zmm0, %%zmm5\n vmovdqa64 %%zmm0, %%zmm6\n"                      \
  "vmovdqa64 %%zmm0, %%zmm7\n vmovdqa64 %%zmm0, %%zmm8\n vmovdqa64 %%zmm0, %%zmm9\n"                      \
  "vmovdqa64 %%zmm0, %%zmm10\n vmovdqa64 %%zmm0, %%zmm11\n vmovdqa64 %%zmm0, %%zmm12\n"                   \
  "vmovdqa64 %%zmm0, %%zmm13\n vmovdqa64 %%zmm0, %%zmm14\n vmovdqa64 %%zmm0, %%zmm15\n"
// Only the low parts have clobber names without AVX flags; the compiler keeps nothing in the upper ones.
#define LLADA_CLOBBERS                                                                                    \
  "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", \
      "xmm12", "xmm13", "xmm14", "xmm15"

}  // namespace

double int8_loop(int64_t rounds) {
  if (!has_vnni() || rounds <= 0) return 0;
  int64_t left = rounds;
  asm volatile(LLADA_CLEAR "1:\n" LLADA_SIXTEEN("vpdpbusd") "dec %0\n jnz 1b\n vzeroupper\n"
               : "+r"(left)
               :
               : LLADA_CLOBBERS);
  return static_cast<double>(rounds) * 16 * 128;
}

double float_loop(int64_t rounds) {
  if (!has_vnni() || rounds <= 0) return 0;
  int64_t left = rounds;
  asm volatile(LLADA_CLEAR "1:\n" LLADA_SIXTEEN("vfmadd231ps") "dec %0\n jnz 1b\n vzeroupper\n"
               : "+r"(left)
               :
               : LLADA_CLOBBERS);
  return static_cast<double>(rounds) * 16 * 32;
}

std::string_view int8_instruction() { return has_vnni() ? "vpdpbusd zmm" : "none"; }

}  // namespace llada::bench
