// Whether a model fits into the memory that a machine has left, from its headers, before a weight is read; and whether
// its packed weights should lie on disk there. A system without room does not refuse memory: it ends a program in the
// middle of its work (Linux), or the ones beside it first (Android).
//
// Only memory that the process cannot give back counts. It has packed weights, in its memory or in buffers that it
// shares with an accelerator, and keys, values and activations of a short request. Pages of a mapped file, the model's
// or a packed one's, can be dropped and read again, so they do not count. Nor does a longer request, which may never
// come.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/memory_room.h"
#include "formats/model_file.h"
#include "kernels/kernels.h"
#include "models/model_graph.h"
#include "tensor/view.h"

namespace llada {

struct MemoryNeed {
  int64_t packed = 0, kv = 0, activations = 0;  // bytes
  int64_t shared = 0;                           // weights in buffers, which no file can stand for
  int64_t total() const { return packed + shared + kv + activations; }
};

// Positions of the request that is counted, where the model has as many.
inline constexpr int64_t kCountedPositions = 256;
int32_t counted_positions(const ModelGraph& graph);

std::vector<WeightId> every_weight(const ModelGraph& graph);

// weights[i] belongs to graph.weights[i]; the cpu packs those in `packed`. No weight is read.
MemoryNeed memory_need(const ModelFile& file, const ModelGraph& graph, std::span<const TensorView> weights,
                       const kernels::KernelTable& kernels, std::span<const WeightId> packed);

// Machines with less memory keep packed weights on disk without being asked to, where the copy is more than a
// kWorthShare-th of the memory. A smaller one is packed faster than anybody notices.
inline constexpr int64_t kSmallMachineBytes = int64_t{12} << 30, kWorthShare = 32;
bool keeps_packed(const MemoryNeed& need, const MemoryRoom& room);

// One line with the bytes needed, the bytes available, and the remedy. model: its path.
Status check_fit(const std::string& model, const MemoryNeed& need, const MemoryRoom& room);

// The same for weights that the host packs beside an accelerator's, for sparse passes or as its fallback.
Status check_second_copy(const std::string& model, int64_t bytes, const MemoryRoom& room);

}  // namespace llada
