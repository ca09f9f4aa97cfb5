// x86: the widest integer and float multiply-adds of an instruction set, on independent registers. Inline
// assembly, so that no compiler flag is needed and no compiler can shorten the loop. Sixteen accumulators
// hide the latency of two units with four cycles each, and more.
#include "bench/ceiling.h"
#include "kernels/amx.h"

namespace llada::bench {
namespace {

bool narrow(std::string_view isa) { return isa == "avx2" || isa == "avxvnni"; }  // 256 bits
bool has_avx512(std::string_view isa) { return !narrow(isa) && __builtin_cpu_supports("avx512f") != 0; }
bool has_avx512_vnni(std::string_view isa) { return has_avx512(isa) && __builtin_cpu_supports("avx512vnni") != 0; }
bool has_avx_vnni(std::string_view isa) { return isa != "avx2" && __builtin_cpu_supports("avxvnni") != 0; }
bool has_avx2() { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; }

// op a, b, accumulator; r is the register class ("zmm" or "ymm"), a and b hold zeros.
#define LLADA_EACH(op, r, a, b, i) op " %%" r a ", %%" r b ", %%" r i "\n"
#define LLADA_TWELVE(op, r, a, b) \
  LLADA_EACH(op, r, a, b, "0")    \
  LLADA_EACH(op, r, a, b, "1")    \
  LLADA_EACH(op, r, a, b, "2")    \
  LLADA_EACH(op, r, a, b, "3")    \
  LLADA_EACH(op, r, a, b, "4")    \
  LLADA_EACH(op, r, a, b, "5")    \
  LLADA_EACH(op, r, a, b, "6")    \
  LLADA_EACH(op, r, a, b, "7")    \
  LLADA_EACH(op, r, a, b, "8")    \
  LLADA_EACH(op, r, a, b, "9")    \
  LLADA_EACH(op, r, a, b, "10")   \
  LLADA_EACH(op, r, a, b, "11")
// Without VNNI: pairs of products to 16 bits, and their sums in 16 bits; registers 6 to 11 hold the intermediate
// values. A sum of two products of full bytes needs vpmaddwd and vpaddd instead of vpaddw: at best 0.6 times as many
// operations on Zen 4. With the additions right behind their products this loop came to 0.94 times as many there.
#define LLADA_MADDUBS(t) "vpmaddubsw %%ymm14, %%ymm15, %%ymm" t "\n"
#define LLADA_ADD(t, i) "vpaddw %%ymm" t ", %%ymm" i ", %%ymm" i "\n"
#define LLADA_SIX_MADDS \
  LLADA_MADDUBS("6")    \
  LLADA_MADDUBS("7")    \
  LLADA_MADDUBS("8")    \
  LLADA_MADDUBS("9")    \
  LLADA_MADDUBS("10")   \
  LLADA_MADDUBS("11")   \
  LLADA_ADD("6", "0")   \
  LLADA_ADD("7", "1") LLADA_ADD("8", "2") LLADA_ADD("9", "3") LLADA_ADD("10", "4") LLADA_ADD("11", "5")
#define LLADA_SIXTEEN(op, a, b)     \
  LLADA_TWELVE(op, "zmm", a, b)     \
  LLADA_EACH(op, "zmm", a, b, "12") \
  LLADA_EACH(op, "zmm", a, b, "13") LLADA_EACH(op, "zmm", a, b, "14") LLADA_EACH(op, "zmm", a, b, "15")
// Only the low parts have clobber names without AVX flags; the compiler keeps nothing in the upper ones.
#define LLADA_CLOBBERS                                                                                             \
  "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
      "xmm13", "xmm14", "xmm15"
#define LLADA_RUN(body) asm volatile("1:\n" body "dec %0\n jnz 1b\n vzeroupper\n" : "+r"(left) : : LLADA_CLOBBERS)

// vzeroall clears registers 0 to 15; 30 and 31 are cleared on their own.
void clear() { asm volatile("vzeroall" : : : LLADA_CLOBBERS); }
#define LLADA_CLEAR_HIGH "vpxord %%zmm30, %%zmm30, %%zmm30\n vpxord %%zmm31, %%zmm31, %%zmm31\n"

// Four sums of 16 x 16 from 64 inputs.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16};
};
constexpr TileConfig kTiles;
#define LLADA_TILES_CLEAR \
  "tilezero %%tmm0\n tilezero %%tmm1\n tilezero %%tmm2\n tilezero %%tmm3\n tilezero %%tmm4\n tilezero %%tmm5\n"
#define LLADA_TILES                                                   \
  "tdpbssd %%tmm5, %%tmm4, %%tmm0\n tdpbssd %%tmm5, %%tmm4, %%tmm1\n" \
  "tdpbssd %%tmm5, %%tmm4, %%tmm2\n tdpbssd %%tmm5, %%tmm4, %%tmm3\n"

}  // namespace

double int8_loop(std::string_view isa, int64_t rounds) {
  if (rounds <= 0 || !has_avx2()) return 0;
  int64_t left = rounds;
  clear();
  if (isa == "amx") {
    if (!kernels::amx::allowed()) return 0;
    asm volatile("ldtilecfg %0" : : "m"(kTiles));
    asm volatile(LLADA_TILES_CLEAR "1:\n" LLADA_TILES "dec %0\n jnz 1b\n tilerelease\n" : "+r"(left) : : "cc");
    return static_cast<double>(rounds) * 4 * 2 * 16 * 16 * 64;
  }
  if (has_avx512_vnni(isa)) {
    asm volatile(LLADA_CLEAR_HIGH "1:\n" LLADA_SIXTEEN("vpdpbusd", "30", "31") "dec %0\n jnz 1b\n vzeroupper\n"
                 : "+r"(left)
                 :
                 : LLADA_CLOBBERS);
    return static_cast<double>(rounds) * 16 * 128;
  }
  if (has_avx_vnni(isa)) {
    LLADA_RUN(LLADA_TWELVE("%{vex%} vpdpbusd", "ymm", "14", "15"));
    return static_cast<double>(rounds) * 12 * 64;
  }
  LLADA_RUN(LLADA_SIX_MADDS);
  return static_cast<double>(rounds) * 6 * 64;
}

double float_loop(std::string_view isa, int64_t rounds) {
  if (rounds <= 0 || !has_avx2()) return 0;
  int64_t left = rounds;
  clear();
  if (has_avx512(isa)) {
    asm volatile(LLADA_CLEAR_HIGH "1:\n" LLADA_SIXTEEN("vfmadd231ps", "30", "31") "dec %0\n jnz 1b\n vzeroupper\n"
                 : "+r"(left)
                 :
                 : LLADA_CLOBBERS);
    return static_cast<double>(rounds) * 16 * 32;
  }
  LLADA_RUN(LLADA_TWELVE("vfmadd231ps", "ymm", "14", "15"));
  return static_cast<double>(rounds) * 12 * 16;
}

std::string_view int8_instruction(std::string_view isa) {
  if (!has_avx2()) return "none";
  return isa == "amx"           ? "tdpbssd"
         : has_avx512_vnni(isa) ? "vpdpbusd zmm"
         : has_avx_vnni(isa)    ? "vpdpbusd ymm"
                                : "vpmaddubsw+vpaddw ymm";
}

std::string_view float_instruction(std::string_view isa) {
  if (!has_avx2()) return "none";
  return has_avx512(isa) ? "vfmadd231ps zmm" : "vfmadd231ps ymm";
}

}  // namespace llada::bench
