// The SME table: that of neon_i8mm with products of Q4_0 and Q8_0, and of what is computed as these, by outer products.
#include "kernels/sme.h"

#include "base/system.h"
#include "kernels/computed.h"
#include "kernels/tables.h"
#include "tensor/computed.h"

namespace llada::kernels {
namespace {

constexpr TypeSet kOwn = type_bit(DType::Q4_0) | type_bit(DType::Q8_0);
constexpr TypeSet kOthers =
    type_bit(DType::Q4_1) | type_bit(DType::Q8_M) | type_bit(DType::Q4_K) | type_bit(DType::Q6_K);

bool own(DType type) { return sme::multiplies(computed_type(type)); }
const KernelTable& others() { return *neon_i8mm_table(); }

int64_t own_bytes(DType type, int64_t n, int64_t k) { return n * sme::column_bytes(type, k); }

int64_t sme_column_tile(DType type) { return own(type) ? sme::kPanel : others().column_tile(type); }
int64_t sme_packed_bytes(DType type, int64_t n, int64_t k) {
  return own(type) ? packed_bytes_of(own_bytes, type, n, k) : others().packed_bytes(type, n, k);
}
void sme_pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  return own(weight.type) ? pack_any(sme::pack, own_bytes, weight, n0, n1, packed)
                          : others().pack(weight, n0, n1, packed);
}

int64_t own_offset(int64_t rows, int64_t k) { return (others().activation_bytes(rows, k) + 63) / 64 * 64; }
int64_t sme_activation_bytes(int64_t rows, int64_t k) { return own_offset(rows, k) + sme::activation_bytes(rows, k); }
void sme_quantize_rows(const float* x, int64_t rows, int64_t k, int64_t r0, int64_t r1, TypeSet readers,
                       std::byte* activations) {
  const TypeSet computed = computed_readers(readers);
  if ((computed & kOthers) != 0) others().quantize_rows(x, rows, k, r0, r1, readers, activations);
  if ((computed & kOwn) == 0) return;
  for (int64_t r = r0; r < r1; ++r) sme::quantize_row(x + r * k, k, rows, r, activations + own_offset(rows, k));
}
void sme_pick_rows(const PickArgs& args) {
  const TypeSet computed = computed_readers(args.readers);
  if ((computed & kOthers) != 0) others().pick_rows(args);
  if ((computed & kOwn) == 0) return;
  for (int64_t i = 0; i < args.count; ++i)
    sme::quantize_row(args.x + args.picked[i] * args.k, args.k, args.count, i,
                      args.out + own_offset(args.count, args.k));
}

void sme_matmul(const MatmulArgs& args) {
  if (!own(args.type)) return others().matmul(args);
  MatmulArgs computed = computed_args(args);
  computed.activations += own_offset(args.rows, args.k);
  static const bool sme2 = arm_features().sme2;
  sme::matmul(computed, sme2);
}

}  // namespace

const KernelTable* sme_table() {
  if (neon_i8mm_table() == nullptr || !arm_features().sme) return nullptr;
  static const KernelTable table = [] {
    KernelTable t = others();
    t.isa = "sme";
    t.column_tile = sme_column_tile;
    t.packed_bytes = sme_packed_bytes;
    t.pack = sme_pack;
    t.activation_bytes = sme_activation_bytes;
    t.quantize_rows = sme_quantize_rows;
    t.pick_rows = sme_pick_rows;
    t.matmul = sme_matmul;
    return t;
  }();
  return &table;
}

}  // namespace llada::kernels
