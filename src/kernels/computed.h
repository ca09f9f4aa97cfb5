// A table's entries for types that have no kernels: they pack and multiply by the computed type (tensor/computed.h).
// bytes, pack: the entries of the table for the types that it computes.
#pragma once
#include "kernels/kernels.h"

namespace llada::kernels {

using PackedBytes = int64_t (*)(DType type, int64_t n, int64_t k);
using Pack = void (*)(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed);

int64_t packed_bytes_of(PackedBytes bytes, DType type, int64_t n, int64_t k);
void pack_any(Pack pack, PackedBytes bytes, const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed);
TypeSet computed_readers(TypeSet readers);
MatmulArgs computed_args(const MatmulArgs& args);
PickArgs computed_args(const PickArgs& args);

}  // namespace llada::kernels
