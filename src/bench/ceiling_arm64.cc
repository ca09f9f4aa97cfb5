// arm64: fmopa, smmla, sdot or smlal, whichever is the widest of the instruction set, and fmla. Inline assembly with
// its own architecture directives, so that the file builds for any Armv8-A. Twenty-four accumulators hide the
// latency of four units with four cycles each.
#include "base/system.h"
#include "bench/ceiling.h"

namespace llada::bench {
namespace {

bool has_dotprod(std::string_view isa) { return isa != "neon" && arm_features().dotprod; }
bool has_i8mm(std::string_view isa) { return isa != "neon" && isa != "neon_dotprod" && arm_features().i8mm; }

#define LLADA_EIGHT(op, a, b, c, d, e, f, g, h, out, in)                                                               \
  op " v" a "." out ", v30." in ", v31." in "\n" op " v" b "." out ", v30." in ", v31." in "\n" op " v" c "." out      \
     ", v30." in ", v31." in "\n" op " v" d "." out ", v30." in ", v31." in "\n" op " v" e "." out ", v30." in         \
     ", v31." in "\n" op " v" f "." out ", v30." in ", v31." in "\n" op " v" g "." out ", v30." in ", v31." in "\n" op \
     " v" h "." out ", v30." in ", v31." in "\n"
#define LLADA_TWENTY_FOUR(op, out, in)                                     \
  LLADA_EIGHT(op, "0", "1", "2", "3", "4", "5", "6", "7", out, in)         \
  LLADA_EIGHT(op, "16", "17", "18", "19", "20", "21", "22", "23", out, in) \
  LLADA_EIGHT(op, "24", "25", "26", "27", "28", "29", "8", "9", out, in)
#define LLADA_CLOBBERS                                                                                               \
  "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v16", "v17", "v18", "v19", "v20", "v21", "v22", \
      "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"
#define LLADA_RUN(extension, body)                                                                       \
  asm volatile(extension "movi v30.16b, #0\n movi v31.16b, #0\n 1:\n" body "subs %0, %0, #1\n b.ne 1b\n" \
               : "+r"(left)                                                                              \
               :                                                                                         \
               : LLADA_CLOBBERS)

}  // namespace

double int8_loop(std::string_view isa, int64_t rounds) {
  if (rounds <= 0) return 0;
  int64_t left = rounds;
  if (isa == "sme") {  // of F16, in streaming mode, which clears every vector register
    int64_t words = 0;
    asm volatile(
        ".arch_extension sme\n smstart\n cntw %1\n ptrue p0.b\n 1:\n .rept 6\n"
        "fmopa za0.s, p0/m, p0/m, z0.h, z1.h\n fmopa za1.s, p0/m, p0/m, z0.h, z1.h\n"
        "fmopa za2.s, p0/m, p0/m, z0.h, z1.h\n fmopa za3.s, p0/m, p0/m, z0.h, z1.h\n"
        ".endr\n subs %0, %0, #1\n b.ne 1b\n smstop\n .arch_extension nosme\n"
        : "+&r"(left), "=&r"(words)
        :
        : LLADA_CLOBBERS, "v10", "v11", "v12", "v13", "v14", "v15", "p0");
    return static_cast<double>(rounds * 24 * 4 * words * words);
  }
  if (has_i8mm(isa)) {
    LLADA_RUN(".arch armv8.2-a+dotprod+i8mm\n", LLADA_TWENTY_FOUR("smmla", "4s", "16b"));
    return static_cast<double>(rounds) * 24 * 64;
  }
  if (has_dotprod(isa)) {
    LLADA_RUN(".arch armv8.2-a+dotprod\n", LLADA_TWENTY_FOUR("sdot", "4s", "16b"));
    return static_cast<double>(rounds) * 24 * 32;
  }
  LLADA_RUN("", LLADA_TWENTY_FOUR("smlal", "8h", "8b"));
  return static_cast<double>(rounds) * 24 * 16;
}

double float_loop(std::string_view, int64_t rounds) {
  if (rounds <= 0) return 0;
  int64_t left = rounds;
  LLADA_RUN("", LLADA_TWENTY_FOUR("fmla", "4s", "4s"));
  return static_cast<double>(rounds) * 24 * 8;
}

std::string_view int8_instruction(std::string_view isa) {
  return isa == "sme" ? "fmopa" : has_i8mm(isa) ? "smmla" : has_dotprod(isa) ? "sdot" : "smlal";
}
std::string_view float_instruction(std::string_view) { return "fmla 4s"; }

}  // namespace llada::bench
