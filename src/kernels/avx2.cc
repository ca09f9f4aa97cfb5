// The tables of 256-bit vectors: AVX2 + FMA + F16C, and the same with AVX-VNNI for the integer products.
#include "kernels/avx2.h"

#include "kernels/computed.h"
#include "kernels/tables.h"

namespace llada::kernels {
namespace {

int64_t avx2_column_tile(DType) { return avx2::kColumnTile; }

int64_t avx2_packed_bytes(DType type, int64_t n, int64_t k) {
  return packed_bytes_of(traits(type).quantized ? avx2::packed_bytes : avx2::float_packed_bytes, type, n, k);
}

void avx2_pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  if (!traits(weight.type).quantized) return avx2::float_pack(weight, n0, n1, packed);
  pack_any(avx2::pack, avx2::packed_bytes, weight, n0, n1, packed);
}
void avxvnni_pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  if (!traits(weight.type).quantized) return avx2::float_pack(weight, n0, n1, packed);
  pack_any(avxvnni::pack, avx2::packed_bytes, weight, n0, n1, packed);
}

void avx2_quantize_rows(const float* x, int64_t rows, int64_t k, int64_t r0, int64_t r1, TypeSet readers,
                        std::byte* activations) {
  avx2::quantize_rows(x, rows, k, r0, r1, computed_readers(readers), activations);
}
void avx2_pick_rows(const PickArgs& args) { avx2::pick_rows(computed_args(args)); }

void avx2_matmul(const MatmulArgs& args) {
  (traits(args.type).quantized ? avx2::matmul : avx2::float_matmul)(computed_args(args));
}
void avxvnni_matmul(const MatmulArgs& args) {
  (traits(args.type).quantized ? avxvnni::matmul : avx2::float_matmul)(computed_args(args));
}

}  // namespace

const KernelTable* avx2_table() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c"))
    return nullptr;
  static const KernelTable table = [] {
    KernelTable t = *scalar_table();
    t.isa = "avx2";
    avx2::use_row_kernels(t);
    avx2::use_digests(t);
    t.column_tile = avx2_column_tile;
    t.packed_bytes = avx2_packed_bytes;
    t.pack = avx2_pack;
    t.activation_bytes = avx2::activation_bytes;
    t.quantize_rows = avx2_quantize_rows;
    t.pick_rows = avx2_pick_rows;
    t.matmul = avx2_matmul;
    return t;
  }();
  return &table;
}

const KernelTable* avxvnni_table() {
#ifdef LLADA_AVXVNNI_EVEX
  const bool has_vnni = __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
#else
  const bool has_vnni = __builtin_cpu_supports("avxvnni");
#endif
  if (avx2_table() == nullptr || !has_vnni) return nullptr;
  static const KernelTable table = [] {
    KernelTable t = *avx2_table();
    t.isa = "avxvnni";
    avxvnni::use_digests(t);
    t.pack = avxvnni_pack;
    t.matmul = avxvnni_matmul;
    return t;
  }();
  return &table;
}

}  // namespace llada::kernels
