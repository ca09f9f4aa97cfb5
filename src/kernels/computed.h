// Entries of a kernel table for types without kernels of their own: packing converts weights to their computed type
// (tensor/computed.h). bytes, pack: the table's own entries, which take computed types alone.
#pragma once
#include "kernels/kernels.h"

namespace llada::kernels {

using PackedBytes = int64_t (*)(DType type, int64_t n, int64_t k);
using Pack = void (*)(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed);

int64_t packed_bytes_of(PackedBytes bytes, DType type, int64_t n, int64_t k);
void pack_any(Pack pack, PackedBytes bytes, const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed);
TypeSet computed_readers(TypeSet readers);         // the computed types of these types
MatmulArgs computed_args(const MatmulArgs& args);  // the same, of the computed type
PickArgs computed_args(const PickArgs& args);

}  // namespace llada::kernels
