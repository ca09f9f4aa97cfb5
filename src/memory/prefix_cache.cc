#include "memory/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "base/random.h"

namespace llada {
namespace {

uint64_t chain_hash(uint64_t parent, std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) parent = mix64(parent + kRandomStep + static_cast<uint32_t>(token));
  return parent;
}

}  // namespace

struct PrefixCache::Page {
  uint64_t hash = 0;
  std::shared_ptr<Page> parent;  // null: of a root, which holds no K/V
  std::vector<int32_t> tokens;
  AlignedBytes data;
  int64_t bytes = 0;
};

PrefixCache::PrefixCache(int64_t budget_bytes, Hash hash)
    : budget_(budget_bytes), hash_(hash != nullptr ? hash : &chain_hash) {}

// Children before their parents: a chain of pages that frees itself would recurse as deep as it is long.
PrefixCache::~PrefixCache() {
  by_hash_.clear();
  for (bool dropped = true; dropped;) {
    const size_t before = pages_.size();
    pages_.remove_if([](const std::shared_ptr<Page>& page) { return page.use_count() == 1; });
    dropped = pages_.size() < before;
  }
}

PrefixCache::Cursor PrefixCache::begin(const std::shared_ptr<const void>& model, const KvShape& shape, int64_t block) {
  const std::lock_guard lock(mutex_);
  const auto same = [&](const Root& root) {
    return !root.model.owner_before(model) && !model.owner_before(root.model) && root.block == block &&
           root.shape.layers == shape.layers && root.shape.kv_heads == shape.kv_heads &&
           root.shape.head_dim == shape.head_dim && root.shape.by_layer == shape.by_layer &&
           root.shape.type == shape.type;
  };
  auto root = std::ranges::find_if(roots_, same);
  if (root == roots_.end()) {
    // Nobody can ask for the pages of a model that is gone; they leave as the longest unused.
    std::erase_if(roots_, [](const Root& old) { return old.model.expired(); });
    auto page = std::make_shared<Page>();
    page->hash = mix64(next_root_++);
    root = roots_.insert(roots_.end(), Root{model, shape, block, std::move(page)});
  }
  Cursor cursor;
  cursor.page_ = root->page;
  cursor.block_ = block;
  return cursor;
}

// Found pages are the most recently used. Called with the lock held.
std::shared_ptr<PrefixCache::Page> PrefixCache::find(const Page& parent, uint64_t hash,
                                                     std::span<const int32_t> tokens) {
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const std::shared_ptr<Page>& page = *it->second;
    if (page->parent.get() != &parent || !std::ranges::equal(page->tokens, tokens)) continue;
    pages_.splice(pages_.begin(), pages_, it->second);
    return page;
  }
  return nullptr;
}

int64_t PrefixCache::fill(Cursor& cursor, std::span<const int32_t> tokens, KvStore& store) {
  const auto size = static_cast<int64_t>(tokens.size());
  for (int64_t end; (end = cursor.positions_ + cursor.block_) <= size; cursor.positions_ = end) {
    const auto part = tokens.subspan(static_cast<size_t>(cursor.positions_), static_cast<size_t>(cursor.block_));
    std::shared_ptr<Page> page;
    {
      const std::lock_guard lock(mutex_);
      page = find(*cursor.page_, hash_(cursor.page_->hash, part), part);
      stats_.found += page != nullptr;
    }
    if (page == nullptr) break;
    store.write(0, cursor.positions_, cursor.block_, page->data.get());
    cursor.page_ = std::move(page);
  }
  return cursor.positions_;
}

void PrefixCache::publish(Cursor& cursor, std::span<const int32_t> tokens, const KvStore& store) {
  const auto size = static_cast<int64_t>(tokens.size());
  const int64_t bytes = store.sequence_bytes(cursor.block_);
  for (int64_t end; (end = cursor.positions_ + cursor.block_) <= size; cursor.positions_ = end) {
    const auto part = tokens.subspan(static_cast<size_t>(cursor.positions_), static_cast<size_t>(cursor.block_));
    const uint64_t hash = hash_(cursor.page_->hash, part);
    std::shared_ptr<Page> page;
    {
      const std::lock_guard lock(mutex_);
      page = find(*cursor.page_, hash, part);
      if (page == nullptr && !make_room(bytes)) return;  // before the copy, which would be for nothing
    }
    if (page == nullptr) {
      page = std::make_shared<Page>(hash, cursor.page_, std::vector(part.begin(), part.end()), allocate_aligned(bytes),
                                    bytes);
      if (page->data == nullptr) return;
      store.read(0, cursor.positions_, cursor.block_, page->data.get());
      const std::lock_guard lock(mutex_);
      if (auto others = find(*cursor.page_, hash, part)) {  // somebody was faster
        page = std::move(others);
      } else {
        if (!make_room(bytes)) return;
        pages_.push_front(page);
        by_hash_.emplace(hash, pages_.begin());
        ++stats_.pages, ++stats_.published;
        stats_.bytes += bytes;
      }
    }
    cursor.page_ = std::move(page);
  }
}

// Drops the longest unused pages that nobody references. A reference to an unreferenced page can only be had with the
// lock, which is held here. Every page is looked at once: one that was passed because its children stood on it is
// dropped with the last of them.
bool PrefixCache::make_room(int64_t bytes) {
  const auto full = [&] { return stats_.bytes + bytes > budget_; };
  for (auto behind = pages_.end(); full() && behind != pages_.begin();) {
    const auto page = std::prev(behind);
    if (page->use_count() > 1) {
      behind = page;
      continue;
    }
    const bool first = page == pages_.begin();
    const auto before = first ? pages_.end() : std::prev(page);
    std::shared_ptr<Page> parent = (*page)->parent;
    drop(page);
    // References: the list's and this one. The next page in the list comes in its turn.
    while (full() && parent->parent != nullptr && parent.use_count() == 2 && place_of(*parent) != before) {
      std::shared_ptr<Page> next = parent->parent;
      drop(place_of(*parent));
      parent = std::move(next);
    }
    behind = first ? pages_.begin() : std::next(before);
  }
  return !full();
}

std::list<std::shared_ptr<PrefixCache::Page>>::iterator PrefixCache::place_of(const Page& page) const {
  const auto [first, last] = by_hash_.equal_range(page.hash);
  return std::find_if(first, last, [&](const auto& entry) { return entry.second->get() == &page; })->second;
}

void PrefixCache::drop(std::list<std::shared_ptr<Page>>::iterator page) {
  const auto [first, last] = by_hash_.equal_range((*page)->hash);
  for (auto it = first; it != last; ++it) {
    if (it->second != page) continue;
    by_hash_.erase(it);
    break;
  }
  stats_.bytes -= (*page)->bytes;
  --stats_.pages, ++stats_.evicted;
  pages_.erase(page);
}

PrefixStats PrefixCache::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace llada
