#include "memory/kv_store.h"

#include <algorithm>
#include <cstring>
#include <ranges>
#include <utility>

#include "base/check.h"

namespace llada {

static int64_t element_bytes(const KvShape& shape) { return shape.type == DType::F16 ? 2 : 4; }

int64_t KvShape::heads() const {
  int64_t sum = by_layer.empty() ? int64_t{layers} * kv_heads : 0;
  for (const KvHeads& one : by_layer) sum += one.heads;
  return sum * sequences;
}

double KvStore::needed_bytes(const KvShape& shape) {
  double elements = 0;  // of a position
  for (int layer = 0; layer < shape.layers; ++layer)
    elements += static_cast<double>(shape.of(layer).heads) * shape.of(layer).head_dim;
  return 2.0 * static_cast<double>(shape.positions) * static_cast<double>(element_bytes(shape)) * shape.sequences *
         elements;
}

Result<KvStore> KvStore::create(const KvShape& shape, const Allocator& allocate) {
  LLADA_CHECK(shape.by_layer.empty() || std::ssize(shape.by_layer) == shape.layers);
  KvStore store;
  store.shape_ = shape;
  const auto missing = [&] {
    return no_memory("K/V store: memory for {} positions x {} layers x {} sequences could not be allocated",
                     shape.positions, shape.layers, shape.sequences);
  };
  // No machine maps more than 2^47 bytes; below that nothing here overflows.
  constexpr double kMostBytes = 0x1p47;
  if (needed_bytes(shape) > kMostBytes) return missing();
  // Whole cache lines per head: two threads that write neighbouring heads never share a line.
  for (int layer = 0; layer < shape.layers; ++layer) {
    store.layer_begin_.push_back(store.half_bytes_);
    store.half_bytes_ += store.head_bytes(layer) * shape.of(layer).heads * shape.sequences;
  }
  store.data_ = allocate ? allocate(2 * store.half_bytes_) : allocate_shared(2 * store.half_bytes_);
  if (store.data_ == nullptr) return missing();
  forget(store.data_.get(), 2 * store.half_bytes_);
  return within_memory([&]() -> Result<KvStore> {
    store.versions_.assign(static_cast<size_t>(shape.positions * shape.sequences), kAbsent);
    return std::move(store);
  });
}

Result<KvStore> KvStore::grown(int64_t positions, const Allocator& allocate) const {
  flush();
  KvShape shape = shape_;
  shape.positions = positions;
  LLADA_TRY(KvStore store, create(shape, allocate));
  std::vector<int64_t> there;  // where its heads begin
  store.for_each_head([&](int, int64_t at) { there.push_back(at); });
  size_t head = 0;
  for_each_head([&](int layer, int64_t at) {
    const int64_t bytes = shape_.positions * row_bytes(layer);
    const std::byte* from = data_.get() + at;
    std::byte* to = store.data_.get() + there[head++];
    std::copy_n(from, bytes, to);
    std::copy_n(from + half_bytes_, bytes, to + store.half_bytes_);
  });
  for (int s = 0; s < shape.sequences; ++s)
    for (int64_t p = 0; p < shape_.positions; ++p) store.set_version(s, p, version(s, p));
  return store;
}

KvStore::Saved KvStore::save(std::span<const int32_t> positions) const {
  flush(positions);
  Saved saved{.positions = {positions.begin(), positions.end()}, .data = {}, .versions = {}};
  saved.data.reserve(static_cast<size_t>(sequence_bytes(1) * shape_.sequences) * positions.size());
  for (const int64_t half : {int64_t{0}, half_bytes_})
    for_each_head([&](int layer, int64_t at) {
      const int64_t row = row_bytes(layer);
      for (const int32_t p : positions) {
        const std::byte* from = data_.get() + half + at + p * row;
        saved.data.insert(saved.data.end(), from, from + row);
      }
    });
  for (int s = 0; s < shape_.sequences; ++s)
    for (const int32_t p : positions) saved.versions.push_back(version(s, p));
  return saved;
}

void KvStore::put_back(const Saved& saved) {
  flush(saved.positions);
  const std::byte* from = saved.data.data();
  for (const int64_t half : {int64_t{0}, half_bytes_})
    for_each_head([&](int layer, int64_t at) {
      const int64_t row = row_bytes(layer);
      for (const int32_t p : saved.positions) {
        std::copy_n(from, row, data_.get() + half + at + p * row);
        from += row;
      }
    });
  size_t i = 0;
  for (int s = 0; s < shape_.sequences; ++s)
    for (const int32_t p : saved.positions) {
      set_version(s, p, saved.versions[i++]);
      for (int layer = 0; layer < shape_.layers; ++layer) wrote(KvViewer::memory, layer, s, p);
    }
}

int64_t KvStore::sequence_bytes(int64_t count) const {
  int64_t position = 0;
  for (int layer = 0; layer < shape_.layers; ++layer) position += shape_.of(layer).heads * row_bytes(layer);
  return 2 * count * position;
}

void KvStore::read(int sequence, int64_t begin, int64_t count, std::byte* to) const {
  flush(std::views::iota(begin, begin + count));
  for (const int64_t half : {int64_t{0}, half_bytes_})
    for (int layer = 0; layer < shape_.layers; ++layer)
      for (int head = 0; head < shape_.of(layer).heads; ++head)
        to = std::copy_n(data_.get() + half + offset(layer, sequence, head) + begin * row_bytes(layer),
                         count * row_bytes(layer), to);
}

void KvStore::write(int sequence, int64_t begin, int64_t count, const std::byte* from) {
  flush(std::views::iota(begin, begin + count));
  for (const int64_t half : {int64_t{0}, half_bytes_})
    for (int layer = 0; layer < shape_.layers; ++layer) {
      const int64_t row = row_bytes(layer), bytes = count * row;
      for (int head = 0; head < shape_.of(layer).heads; ++head, from += bytes)
        std::copy_n(from, bytes, data_.get() + half + offset(layer, sequence, head) + begin * row);
    }
  for (int64_t p = begin; p < begin + count; ++p) {
    set_version(sequence, p, 0);
    for (int layer = 0; layer < shape_.layers; ++layer) wrote(KvViewer::memory, layer, sequence, p);
  }
}

Status KvStore::reserve_digests(const void* maker, int64_t head_bytes) {
  LLADA_CHECK(shape_.by_layer.empty());
  if (view(KvViewer::digests).owner() == maker && digest_head_bytes_ == head_bytes) return {};
  const int64_t heads = int64_t{shape_.layers} * shape_.sequences * shape_.kv_heads;
  look(KvViewer::digests, nullptr);
  digest_bytes_ = 0;
  digests_.reset();
  digests_ = allocate_aligned(heads * head_bytes);
  if (digests_ == nullptr)
    return no_memory(
        "K/V store: {} bytes for digests of {} positions x {} layers x {} sequences could not be allocated",
        heads * head_bytes, shape_.positions, shape_.layers, shape_.sequences);
  // Long attention reads blocks of positions whole. Positions that were never digested have no influence, but must not
  // be undefined. (The pages are written soon anyway.)
  std::memset(digests_.get(), 0, static_cast<size_t>(heads * head_bytes));
  digest_head_bytes_ = head_bytes;
  digest_bytes_ = heads * head_bytes;
  look(KvViewer::digests, maker);
  return {};
}

void KvStore::keep_with(std::shared_ptr<KvKeeper> keeper) {
  keeper_ = std::move(keeper);
  for (const KvViewer viewer : {KvViewer::memory, KvViewer::dsp})
    view(viewer) = KvView(keeper_.get(), shape_, true, true);
}

template <class Positions>
void KvStore::flush(const Positions& positions) const {
  if (keeper_ == nullptr) return;
  const auto rows = view(KvViewer::memory).take_stale(positions);
  if (!rows.empty()) keeper_->flush(rows);
}

void KvStore::flush() const { flush(std::views::iota(int64_t{0}, shape_.positions)); }

std::vector<KvRows> KvStore::take_stale() {
  return view(KvViewer::dsp).take_stale(std::views::iota(int64_t{0}, keeper_ != nullptr ? shape_.positions : 0));
}

void KvStore::clear() {
  std::ranges::fill(versions_, kAbsent);
  for (const KvViewer viewer : {KvViewer::digests, KvViewer::gpu}) view(viewer).set_all_stale();
  forget(data_.get(), 2 * half_bytes_);
  forget(digests_.get(), digest_bytes_);
}

}  // namespace llada
