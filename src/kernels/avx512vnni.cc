// The AVX-512 F/BW/DQ/VL + VNNI table.
#include "kernels/avx512vnni.h"

#include "kernels/tables.h"

namespace llada::kernels {
namespace {

// Quantized types multiply integers, the others floats; each path has its own packed layout.
int64_t avx512_column_tile(DType type) {
  return traits(type).quantized ? avx512vnni::column_tile(type) : avx512vnni::float_column_tile();
}

int64_t avx512_packed_bytes(DType type, int64_t n, int64_t k) {
  return traits(type).quantized ? avx512vnni::packed_bytes(type, n, k) : avx512vnni::float_packed_bytes(type, n, k);
}

void avx512_pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  (traits(weight.type).quantized ? avx512vnni::pack : avx512vnni::float_pack)(weight, n0, n1, packed);
}

void avx512_matmul(const MatmulArgs& args) {
  (traits(args.type).quantized ? avx512vnni::matmul : avx512vnni::float_matmul)(args);
}

}  // namespace

const KernelTable* avx512vnni_table() {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl") ||
      !__builtin_cpu_supports("avx512vnni") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c"))
    return nullptr;
  static const KernelTable table = [] {
    KernelTable t = *scalar_table();
    t.isa = "avx512vnni";
    avx512vnni::use_row_kernels(t);
    avx512vnni::use_digests(t);
    t.column_tile = avx512_column_tile;
    t.packed_bytes = avx512_packed_bytes;
    t.pack = avx512_pack;
    t.activation_bytes = avx512vnni::activation_bytes;
    t.quantize_rows = avx512vnni::quantize_rows;
    t.pick_rows = avx512vnni::pick_rows;
    t.matmul = avx512_matmul;
    return t;
  }();
  return &table;
}

}  // namespace llada::kernels
