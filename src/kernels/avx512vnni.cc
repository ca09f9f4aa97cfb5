// The AVX-512 F/BW/DQ/VL + VNNI table.
#include "kernels/avx512vnni.h"

#include "kernels/tables.h"

namespace llada::kernels {
namespace {

void matmul(const MatmulArgs& args) {
  if (traits(args.type).quantized) {
    avx512vnni::matmul(args);
  } else {
    scalar_table()->matmul(args);
  }
}

}  // namespace

const KernelTable* avx512vnni_table() {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl") ||
      !__builtin_cpu_supports("avx512vnni") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("f16c"))
    return nullptr;
  static const KernelTable table = [] {
    KernelTable t = *scalar_table();
    t.isa = "avx512vnni";
    t.column_tile = avx512vnni::column_tile;
    t.packed_bytes = avx512vnni::packed_bytes;
    t.pack = avx512vnni::pack;
    t.activation_bytes = avx512vnni::activation_bytes;
    t.quantize_rows = avx512vnni::quantize_rows;
    t.matmul = matmul;
    return t;
  }();
  return &table;
}

}  // namespace llada::kernels
