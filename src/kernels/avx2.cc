// The AVX2 + FMA + F16C table.
#include "kernels/tables.h"

namespace llada::kernels {

const KernelTable* avx2_table() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c"))
    return nullptr;
  static const KernelTable table = [] {
    KernelTable t = *scalar_table();
    t.isa = "avx2";
    return t;
  }();
  return &table;
}

}  // namespace llada::kernels
