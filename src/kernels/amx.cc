// The AMX table: that of AVX-512 VNNI with products of many rows by tiles.
#include "kernels/amx.h"

#include <cpuid.h>

#include "base/system.h"
#include "kernels/computed.h"
#include "kernels/tables.h"

namespace llada::kernels {
namespace {

// The tiles and their multiplication of bytes; AVX-512 VBMI and GFNI, which every processor with tiles has. Valgrind's
// processor has none of them.
bool has_instructions() {
  constexpr unsigned kVbmi = 1u << 1, kGfni = 1u << 8, kTile = 1u << 24, kInt8 = 1u << 25;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  return (c & kVbmi) != 0 && (c & kGfni) != 0 && (d & kTile) != 0 && (d & kInt8) != 0;
}

void amx_quantize_rows(const float* x, int64_t rows, int64_t k, int64_t r0, int64_t r1, TypeSet readers,
                       std::byte* activations) {
  amx::quantize_rows(x, rows, k, r0, r1, computed_readers(readers), activations);
}
void amx_pick_rows(const PickArgs& args) { amx::pick_rows(computed_args(args)); }

void amx_matmul(const MatmulArgs& args) {
  if (!traits(args.type).quantized) return avx512vnni::float_matmul(args);
  amx::matmul(computed_args(args));
}

}  // namespace

bool amx::allowed() {
  static const bool allowed = ask_for_tiles();
  return allowed;
}

const KernelTable* amx_table() {
  if (avx512vnni_table() == nullptr || !has_instructions() || !system_has_tiles()) return nullptr;
  static const KernelTable table = [] {
    KernelTable t = *avx512vnni_table();
    t.isa = "amx";
    t.activation_bytes = amx::activation_bytes;
    t.quantize_rows = amx_quantize_rows;
    t.pick_rows = amx_pick_rows;
    t.matmul = amx_matmul;
    return t;
  }();
  return &table;
}

}  // namespace llada::kernels
