#include "kernels/computed.h"

#include <algorithm>
#include <vector>

#include "tensor/computed.h"

namespace llada::kernels {

int64_t packed_bytes_of(PackedBytes bytes, DType type, int64_t n, int64_t k) {
  const DType computed = computed_type(type);
  const int64_t packed = bytes(computed, n, k);
  return packed > 0 || computed == type ? packed : n * row_bytes(computed, k);
}

void pack_any(Pack pack, PackedBytes bytes, const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  constexpr int64_t kRows = 64;  // at a time: whole column tiles
  const DType computed = computed_type(weight.type);
  if (computed == weight.type) return pack(weight, n0, n1, packed);
  const int64_t k = weight.shape.columns(), stride = row_bytes(computed, k);
  const bool packs = bytes(computed, weight.shape.rows(), k) > 0;  // or rows as they would be stored
  std::vector<std::byte> converted(static_cast<size_t>(packs ? kRows * stride : 0));
  for (int64_t first = n0; first < n1; first += kRows) {
    const int64_t rows = std::min(kRows, n1 - first);
    std::byte* const to = packs ? converted.data() : packed + first * stride;
    for (int64_t r = 0; r < rows; ++r) convert_row(weight.type, weight.row(first + r), to + r * stride, k);
    const TensorView part{to, computed, {{k, rows, 1, 1}, 2}};
    if (packs) pack(part, 0, rows, packed + (first > 0 ? bytes(computed, first, k) : 0));
  }
}

TypeSet computed_readers(TypeSet readers) {
  TypeSet computed = 0;
  for (int i = 0; i < kDTypeCount; ++i)
    if (const auto type = static_cast<DType>(i); (readers & type_bit(type)) != 0)
      computed |= type_bit(computed_type(type));
  return computed;
}

MatmulArgs computed_args(const MatmulArgs& args) {
  MatmulArgs computed = args;
  computed.type = computed_type(args.type);
  return computed;
}

PickArgs computed_args(const PickArgs& args) {
  PickArgs computed = args;
  computed.readers = computed_readers(args.readers);
  return computed;
}

}  // namespace llada::kernels
