#include "devices/cpu/packed_weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <utility>

#include "base/fnv.h"
#include "base/pages.h"
#include "tensor/synthesize.h"

namespace llada {
namespace {

int64_t packed_bytes(const kernels::KernelTable& kernels, const TensorView& stored) {
  return kernels.packed_bytes(stored.type, stored.shape.rows(), stored.shape.columns());
}

}  // namespace

bool needs_packing(const kernels::KernelTable& kernels, const WeightInfo& info, const TensorView& stored) {
  return info.multiplied && !is_vector(info) && kernels.packed_bytes(stored.type, info.dims[1], info.dims[0]) > 0;
}

void pack_matrix(const kernels::KernelTable& kernels, ThreadPool& pool, const TensorView& stored, std::byte* packed) {
  const int64_t outputs = stored.shape.rows(), tile = kernels.column_tile(stored.type);
  const int64_t step = tile * std::max<int64_t>(1, 256 / tile);
  pool.run((outputs + step - 1) / step, [&](int64_t chunk, int) {
    kernels.pack(stored, chunk * step, std::min(outputs, (chunk + 1) * step), packed);
  });
}

uint64_t layout_fingerprint(const kernels::KernelTable& kernels) {
  constexpr int64_t kInputs = 768, kOutputs = 133;  // whole super-groups; columns that fill no tile
  Fnv hash;
  for (int t = 0; t < kDTypeCount; ++t) {
    TensorView small{nullptr, static_cast<DType>(t), {{kInputs, kOutputs, 1, 1}, 2}};
    const int64_t bytes = packed_bytes(kernels, small);
    hash.add(bytes);
    if (bytes == 0) continue;
    const AlignedBytes stored = allocate_aligned(small.bytes()), packed = allocate_aligned(bytes);
    if (stored == nullptr || packed == nullptr) return 0;
    synthesize_groups(small.type, 1, 1.0, 0, kInputs * kOutputs / traits(small.type).elements, stored.get());
    std::memset(packed.get(), 0, static_cast<size_t>(bytes));
    small.data = stored.get();
    kernels.pack(small, 0, kOutputs, packed.get());
    hash.add_words({packed.get(), static_cast<size_t>(bytes)});
  }
  return hash.hash();
}

Result<std::shared_ptr<const PackedWeights>> PackedWeights::open(const std::string& path, std::string_view isa,
                                                                 const PackedSource& source,
                                                                 std::span<const WeightInfo> infos,
                                                                 std::span<const TensorView> weights) {
  LLADA_TRY(const auto* kernels, kernels::select(isa));
  LLADA_TRY(auto file, MappedFile::open(path));
  LLADA_TRY(auto index, parse_packed_file(file.bytes(), path));
  if (index.isa != kernels->isa) return invalid("{}: packed for {}, {} needed", path, index.isa, kernels->isa);
  if (index.source.identity != source.identity)
    return invalid("{}: the model's file has changed since it was packed", path);
  if (index.layout != layout_fingerprint(*kernels))
    return invalid("{}: packed by a version of this program that lays weights out otherwise", path);
  file.use_large_pages();
  std::shared_ptr<PackedWeights> packed(new PackedWeights(std::move(file), std::move(index)));
  std::map<std::pair<std::string_view, int>, const PackedMatrix*> by_name;
  for (const PackedMatrix& m : packed->index_.matrices) by_name[{m.name, m.expert}] = &m;
  packed->at_.resize(infos.size());
  for (size_t i = 0; i < infos.size(); ++i) {
    if (!needs_packing(*kernels, infos[i], weights[i])) continue;
    const auto found = by_name.find({infos[i].name, infos[i].expert});
    if (found == by_name.end()) return invalid("{}: {} is missing", path, infos[i].name);
    const PackedMatrix& m = *found->second;
    if (m.type != weights[i].type || m.inputs != infos[i].dims[0] || m.outputs != infos[i].dims[1] ||
        m.bytes != static_cast<uint64_t>(packed_bytes(*kernels, weights[i])))
      return invalid("{}: {} is {} x {} of {} in {} bytes, which is not the model's", path, infos[i].name, m.inputs,
                     m.outputs, traits(m.type).name, m.bytes);
    packed->at_[i] = packed->file_.bytes().data() + m.offset;
  }
  return packed;
}

Status PackedWeights::verify(ThreadPool& pool) const {
  const auto& matrices = index_.matrices;
  std::atomic<size_t> first = matrices.size();  // of those that are damaged
  pool.run(static_cast<int64_t>(matrices.size()), [&](int64_t at, int) {
    const auto i = static_cast<size_t>(at);
    if (packed_checksum(file_.bytes().subspan(matrices[i].offset, matrices[i].bytes)) == matrices[i].checksum) return;
    for (size_t seen = first; i < seen && !first.compare_exchange_weak(seen, i);) {
    }
  });
  if (first == matrices.size()) return {};
  return invalid("{}: {} is damaged: its bytes do not have the checksum of the index", file_.path(),
                 matrices[first].name);
}

Status write_packed_weights(const std::string& path, std::string_view isa, const PackedSource& source,
                            std::span<const WeightInfo> infos, std::span<const TensorView> weights, ThreadPool& pool,
                            const WeightHooks& hooks, const std::function<Status()>& check) {
  LLADA_TRY(const auto* kernels, kernels::select(isa));
  std::vector<size_t> order;
  uint64_t total = 0;
  int64_t largest = 0;
  for (size_t i = 0; i < infos.size(); ++i) {
    if (!needs_packing(*kernels, infos[i], weights[i])) continue;
    const int64_t bytes = packed_bytes(*kernels, weights[i]);
    order.push_back(i);
    total += static_cast<uint64_t>(bytes) + kPackedAlign;
    largest = std::max(largest, bytes);
  }
  if (order.empty()) return invalid("{}: no weight of the model is packed for {}", source.path, kernels->isa);
  LLADA_TRY_STATUS(check_free_space(path, total));
  const AlignedBytes packed = allocate_aligned(largest);
  if (packed == nullptr) return failed("{} bytes for a packed matrix could not be allocated", largest);
  LLADA_TRY(auto file, AtomicFile::create(path));
  PackedIndex index{std::string(kernels->isa), layout_fingerprint(*kernels), source, {}};
  if (hooks.planned) hooks.planned(order);
  for (const size_t i : order) {
    if (hooks.wanted) hooks.wanted(i);
    const TensorView& stored = weights[i];
    const std::span<std::byte> bytes(packed.get(), static_cast<size_t>(packed_bytes(*kernels, stored)));
    std::ranges::fill(bytes, std::byte{});  // bytes that a layout leaves out between columns
    pack_matrix(*kernels, pool, stored, packed.get());
    if (hooks.packed) hooks.packed(i);
    static constexpr std::byte kNothing[kPackedAlign]{};
    LLADA_TRY_STATUS(file.write({kNothing, (kPackedAlign - file.position() % kPackedAlign) % kPackedAlign}));
    index.matrices.push_back({infos[i].name, infos[i].expert, stored.type, infos[i].dims[0], infos[i].dims[1],
                              file.position(), bytes.size(), packed_checksum(bytes)});
    LLADA_TRY_STATUS(file.write(bytes));
  }
  if (check) LLADA_TRY_STATUS(check());
  LLADA_TRY_STATUS(file.write(packed_index_bytes(index, file.position())));
  return file.commit();
}

}  // namespace llada
