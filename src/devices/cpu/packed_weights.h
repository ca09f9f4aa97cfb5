// A model's packed weights from a file that is mapped read-only, so that a start packs nothing and all processes of a
// machine share the pages. The file belongs to the stored weights, an instruction set and a layout, and is refused
// where one of them differs. engine/pack_cache.h chooses its path.
//
// The index is always checked. The packed bytes are checked by verify() alone, since a gigabyte takes longer to read
// than to map. Any bytes are safe to compute with, so they are trusted as those of the model's own file are.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/threads.h"
#include "devices/cpu/packed_file.h"
#include "devices/device.h"
#include "graph/program.h"
#include "kernels/kernels.h"

namespace llada {

// Whether products with the weight need a packed copy: a matrix that is multiplied by, where the kernels have a layout
// for its type.
bool needs_packing(const kernels::KernelTable& kernels, const WeightInfo& info, const TensorView& stored);

// The packed copy of a matrix, on all threads. packed: kernels.packed_bytes() bytes.
void pack_matrix(const kernels::KernelTable& kernels, ThreadPool& pool, const TensorView& stored, std::byte* packed);

// Tells layouts apart without counting versions: a hash of the bytes that the kernels pack from a small matrix of every
// type.
uint64_t layout_fingerprint(const kernels::KernelTable& kernels);

class PackedWeights {
 public:
  // Refused, in one line that says why: a file of another source, instruction set or layout, one that is damaged, or
  // that lacks a matrix. weights[i] belongs to infos[i].
  static Result<std::shared_ptr<const PackedWeights>> open(const std::string& path, std::string_view isa,
                                                           const PackedSource& source,
                                                           std::span<const WeightInfo> infos,
                                                           std::span<const TensorView> weights);

  // The packed bytes of weight i; null: it has none.
  const std::byte* find(size_t weight) const { return at_[weight]; }
  std::string_view isa() const { return index_.isa; }
  int64_t bytes() const { return static_cast<int64_t>(file_.bytes().size()); }

  // Compares every matrix with its checksum.
  Status verify(ThreadPool& pool) const;

 private:
  PackedWeights(MappedFile file, PackedIndex index) : file_(std::move(file)), index_(std::move(index)) {}
  MappedFile file_;
  PackedIndex index_;
  std::vector<const std::byte*> at_;  // by weight
};

// Packs all that needs packing into a file, which is there whole or not at all. One matrix at a time is in memory.
// hooks: called as by a device that loads weights. check: asked before the file is put in place, may be empty.
Status write_packed_weights(const std::string& path, std::string_view isa, const PackedSource& source,
                            std::span<const WeightInfo> infos, std::span<const TensorView> weights, ThreadPool& pool,
                            const WeightHooks& hooks, const std::function<Status()>& check = {});

}  // namespace llada
