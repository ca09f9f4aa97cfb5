#include "memory/kv_store.h"

#include <algorithm>
#include <cstring>
#include <ranges>
#include <utility>

namespace llada {

static int64_t element_bytes(const KvShape& shape) { return shape.type == DType::F16 ? 2 : 4; }

double KvStore::needed_bytes(const KvShape& shape) {
  return 2.0 * static_cast<double>(shape.positions) * shape.head_dim * static_cast<double>(element_bytes(shape)) *
         shape.kv_heads * shape.sequences * shape.layers;
}

Result<KvStore> KvStore::create(const KvShape& shape, const Allocator& allocate) {
  KvStore store;
  store.shape_ = shape;
  const int64_t element = element_bytes(shape);
  const auto missing = [&] {
    return no_memory("K/V store: memory for {} positions x {} layers x {} sequences could not be allocated",
                     shape.positions, shape.layers, shape.sequences);
  };
  // No machine maps more than 2^47 bytes; below that nothing here overflows.
  constexpr double kMostBytes = 0x1p47;
  if (needed_bytes(shape) > kMostBytes) return missing();
  // Whole cache lines per head: two threads that write neighbouring heads never share a line.
  store.head_bytes_ = (shape.positions * shape.head_dim * element + 63) / 64 * 64;
  store.half_bytes_ = store.head_bytes_ * shape.kv_heads * shape.sequences * shape.layers;
  store.data_ = allocate ? allocate(2 * store.half_bytes_) : allocate_shared(2 * store.half_bytes_);
  if (store.data_ == nullptr) return missing();
  forget(store.data_.get(), 2 * store.half_bytes_);
  return within_memory([&]() -> Result<KvStore> {
    store.versions_.assign(static_cast<size_t>(shape.positions * shape.sequences), kAbsent);
    return std::move(store);
  });
}

Result<KvStore> KvStore::grown(int64_t positions, const Allocator& allocate) const {
  bring();
  KvShape shape = shape_;
  shape.positions = positions;
  LLADA_TRY(KvStore store, create(shape, allocate));
  const int64_t heads = int64_t{shape.layers} * shape.sequences * shape.kv_heads,
                bytes = shape_.positions * row_bytes();
  for (int64_t head = 0; head < heads; ++head) {
    const std::byte* from = data_.get() + head * head_bytes_;
    std::byte* to = store.data_.get() + head * store.head_bytes_;
    std::copy_n(from, bytes, to);
    std::copy_n(from + half_bytes_, bytes, to + store.half_bytes_);
  }
  for (int s = 0; s < shape.sequences; ++s)
    for (int64_t p = 0; p < shape_.positions; ++p) store.set_version(s, p, version(s, p));
  return store;
}

KvStore::Saved KvStore::save(std::span<const int32_t> positions) const {
  bring(positions);
  Saved saved{.positions = {positions.begin(), positions.end()}, .data = {}, .versions = {}};
  const int64_t row = row_bytes();
  const int64_t heads = int64_t{shape_.layers} * shape_.sequences * shape_.kv_heads;
  saved.data.reserve(static_cast<size_t>(2 * heads * row) * positions.size());
  for (const int64_t half : {int64_t{0}, half_bytes_}) {
    for (int64_t head = 0; head < heads; ++head) {
      for (const int32_t p : positions) {
        const std::byte* from = data_.get() + half + head * head_bytes_ + p * row;
        saved.data.insert(saved.data.end(), from, from + row);
      }
    }
  }
  for (int s = 0; s < shape_.sequences; ++s)
    for (const int32_t p : positions) saved.versions.push_back(version(s, p));
  return saved;
}

void KvStore::put_back(const Saved& saved) {
  bring(saved.positions);
  const int64_t row = row_bytes();
  const int64_t heads = int64_t{shape_.layers} * shape_.sequences * shape_.kv_heads;
  const std::byte* from = saved.data.data();
  for (const int64_t half : {int64_t{0}, half_bytes_}) {
    for (int64_t head = 0; head < heads; ++head) {
      for (const int32_t p : saved.positions) {
        std::copy_n(from, row, data_.get() + half + head * head_bytes_ + p * row);
        from += row;
      }
    }
  }
  size_t i = 0;
  for (int s = 0; s < shape_.sequences; ++s)
    for (const int32_t p : saved.positions) {
      set_version(s, p, saved.versions[i++]);
      for (int layer = 0; layer < shape_.layers; ++layer) changed(layer, s, p);
    }
}

int64_t KvStore::sequence_bytes(int64_t count) const {
  return 2 * shape_.layers * shape_.kv_heads * count * row_bytes();
}

void KvStore::read(int sequence, int64_t begin, int64_t count, std::byte* to) const {
  bring(std::views::iota(begin, begin + count));
  for (const int64_t half : {int64_t{0}, half_bytes_})
    for (int layer = 0; layer < shape_.layers; ++layer)
      for (int head = 0; head < shape_.kv_heads; ++head)
        to = std::copy_n(data_.get() + half + offset(layer, sequence, head) + begin * row_bytes(), count * row_bytes(),
                         to);
}

void KvStore::write(int sequence, int64_t begin, int64_t count, const std::byte* from) {
  bring(std::views::iota(begin, begin + count));
  const int64_t bytes = count * row_bytes();
  for (const int64_t half : {int64_t{0}, half_bytes_})
    for (int layer = 0; layer < shape_.layers; ++layer)
      for (int head = 0; head < shape_.kv_heads; ++head, from += bytes)
        std::copy_n(from, bytes, data_.get() + half + offset(layer, sequence, head) + begin * row_bytes());
  for (int64_t p = begin; p < begin + count; ++p) {
    set_version(sequence, p, 0);
    for (int layer = 0; layer < shape_.layers; ++layer) changed(layer, sequence, p);
  }
}

void KvStore::drop_digests() {
  digested_.clear();
  digests_.reset();
  digest_maker_ = nullptr;
  digest_head_bytes_ = digest_bytes_ = 0;
}

Status KvStore::reserve_digests(const void* maker, int64_t head_bytes) {
  if (digest_maker_ == maker && digest_head_bytes_ == head_bytes) return {};
  const int64_t heads = int64_t{shape_.layers} * shape_.sequences * shape_.kv_heads;
  drop_digests();
  digests_ = allocate_aligned(heads * head_bytes);
  if (digests_ == nullptr)
    return no_memory(
        "K/V store: {} bytes for digests of {} positions x {} layers x {} sequences could not be allocated",
        heads * head_bytes, shape_.positions, shape_.layers, shape_.sequences);
  // Long attention reads blocks of positions whole. What was never digested has no influence, but must not be
  // undefined. (The pages are written soon anyway.)
  std::memset(digests_.get(), 0, static_cast<size_t>(heads * head_bytes));
  digest_maker_ = maker;
  digest_head_bytes_ = head_bytes;
  digest_bytes_ = heads * head_bytes;
  digested_.assign(static_cast<size_t>(shape_.positions * shape_.sequences * shape_.layers), 0);
  return {};
}

void KvStore::track_copy(const void* copy) {
  if (std::exchange(copy_, copy) == copy) return;
  copied_.assign(copy != nullptr ? static_cast<size_t>(shape_.positions * shape_.sequences * shape_.layers) : 0, 0);
}

namespace {

// Neighbours among what `take` says of each position.
template <class Take>
std::vector<KvRows> rows_of(int64_t positions, const Take& take) {
  std::vector<KvRows> rows;
  for (int64_t p = 0; p < positions; ++p) {
    if (!take(p)) continue;
    if (rows.empty() || rows.back().last != p) rows.push_back({p, p});
    rows.back().last = p + 1;
  }
  return rows;
}

}  // namespace

void KvStore::keep_with(std::shared_ptr<KvKeeper> keeper) {
  keeper_ = std::move(keeper);
  away_.assign(static_cast<size_t>(shape_.positions), 0);
  written_.assign(static_cast<size_t>(shape_.positions), 0);
}

template <class Positions>
void KvStore::bring(const Positions& positions) const {
  if (keeper_ == nullptr) return;
  std::vector<uint8_t> wanted(away_.size(), 0);
  for (const auto p : positions)
    if (std::exchange(away_[static_cast<size_t>(p)], uint8_t{0}) != 0) wanted[static_cast<size_t>(p)] = 1;
  const auto rows = rows_of(std::ssize(wanted), [&](int64_t p) { return wanted[static_cast<size_t>(p)] != 0; });
  if (!rows.empty()) keeper_->bring(rows);
}

void KvStore::bring() const { bring(std::views::iota(int64_t{0}, shape_.positions)); }

std::vector<KvRows> KvStore::take_written() {
  return rows_of(std::ssize(written_),
                 [&](int64_t p) { return std::exchange(written_[static_cast<size_t>(p)], uint8_t{0}) != 0; });
}

void KvStore::clear() {
  std::ranges::fill(versions_, kAbsent);
  std::ranges::fill(digested_, uint8_t{0});
  std::ranges::fill(copied_, uint8_t{0});
  forget(data_.get(), 2 * half_bytes_);
  forget(digests_.get(), digest_bytes_);
}

}  // namespace llada
