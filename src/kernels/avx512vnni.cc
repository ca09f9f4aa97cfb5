// The AVX-512 F/BW/DQ/VL + VNNI table.
#include "kernels/avx512vnni.h"

#include "kernels/computed.h"
#include "kernels/tables.h"

namespace llada::kernels {
namespace {

// Quantized types multiply integers, the others floats; each path has its own packed layout.
int64_t avx512_column_tile(DType type) {
  return traits(type).quantized ? avx512vnni::column_tile(type) : avx512vnni::float_column_tile();
}

int64_t avx512_packed_bytes(DType type, int64_t n, int64_t k) {
  if (!traits(type).quantized) return avx512vnni::float_packed_bytes(type, n, k);
  return packed_bytes_of(avx512vnni::packed_bytes, type, n, k);
}

void avx512_pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  if (!traits(weight.type).quantized) return avx512vnni::float_pack(weight, n0, n1, packed);
  pack_any(avx512vnni::pack, avx512vnni::packed_bytes, weight, n0, n1, packed);
}

void avx512_quantize_rows(const float* x, int64_t rows, int64_t k, int64_t r0, int64_t r1, TypeSet readers,
                          std::byte* activations) {
  avx512vnni::quantize_rows(x, rows, k, r0, r1, computed_readers(readers), activations);
}
void avx512_pick_rows(const PickArgs& args) { avx512vnni::pick_rows(computed_args(args)); }

void avx512_matmul(const MatmulArgs& args) {
  if (!traits(args.type).quantized) return avx512vnni::float_matmul(args);
  avx512vnni::matmul(computed_args(args));
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
    t.quantize_rows = avx512_quantize_rows;
    t.pick_rows = avx512_pick_rows;
    t.matmul = avx512_matmul;
    return t;
  }();
  return &table;
}

}  // namespace llada::kernels
