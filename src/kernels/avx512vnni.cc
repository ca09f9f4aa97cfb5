// The AVX-512 F/BW/DQ/VL + VNNI table.
#include "kernels/tables.h"

namespace llada::kernels {

const KernelTable* avx512vnni_table() {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl") ||
      !__builtin_cpu_supports("avx512vnni") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c"))
    return nullptr;
  static const KernelTable table = [] {
    KernelTable t = *scalar_table();
    t.isa = "avx512vnni";
    return t;
  }();
  return &table;
}

}  // namespace llada::kernels
