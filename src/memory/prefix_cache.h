// Keys and values that another request, or the same conversation a turn later, need not compute again. For models whose
// attention is block-causal: the K/V of a block depend on its tokens and on those before it, and on nothing else. So a
// sequence with the same tokens up to the end of a block has the same bits in it. Where every position reads every
// other one (LLaDA, Dream) nothing is ever final and nothing is shared: such runs do not use this.
//
// A page holds one block of one sequence in all layers. It is copied into a request's own K/V store and out of it,
// instead of being read in place. Kernels read a contiguous run of keys, and copying a block costs a fraction of a
// percent of computing it. Pages make a tree: a page's parent is the block before it. A page that is another's parent,
// or that a request's cursor stands on, is referenced; of the others the longest unused go when the budget is full.
//
// Tokens are compared, never only their hash; pages of one model, one element type and one geometry are found by those
// alone. Usable from several threads; pages do not change once they are found.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "memory/kv_store.h"

namespace llada {

struct PrefixStats {
  int64_t pages = 0, bytes = 0;                   // now; at most the budget
  int64_t found = 0, published = 0, evicted = 0;  // pages, so far
};

class PrefixCache {
 public:
  // The hash of a page, by its parent and its tokens.
  using Hash = uint64_t (*)(uint64_t parent, std::span<const int32_t> tokens);

  // budget_bytes: of pages; 0: nothing is kept. hash: for tests, which want collisions.
  explicit PrefixCache(int64_t budget_bytes, Hash hash = nullptr);
  ~PrefixCache();

 private:
  struct Page;

 public:
  // How far one sequence of a request agrees with the cache. Cheap to copy; keeps its page from being dropped.
  class Cursor {
   public:
    int64_t positions() const { return positions_; }

   private:
    friend class PrefixCache;
    std::shared_ptr<Page> page_;
    int64_t block_ = 0, positions_ = 0;
  };

  // At position 0. `model` stands for the weights and for the device that computes with them: pages of one are never
  // found for another, even if that lies at the same address later.
  Cursor begin(const std::shared_ptr<const void>& model, const KvShape& shape, int64_t block);

  // Goes on through whole blocks of `tokens`, which begin at position 0, as long as they are known, and copies their
  // K/V into the store's first sequence. Returns the cursor's positions: those before it need not be computed.
  int64_t fill(Cursor& cursor, std::span<const int32_t> tokens, KvStore& store);

  // Keeps the whole blocks of `tokens` behind the cursor: the store's K/V of these positions were computed from exactly
  // these tokens. Ends early where there is no room; the next call goes on from there.
  void publish(Cursor& cursor, std::span<const int32_t> tokens, const KvStore& store);

  PrefixStats stats() const;

 private:
  // All pages below a root are of one model, one type and one geometry.
  struct Root {
    std::weak_ptr<const void> model;  // its place is not taken while this is here
    KvShape shape;
    int64_t block;
    std::shared_ptr<Page> page;
  };

  std::shared_ptr<Page> find(const Page& parent, uint64_t hash, std::span<const int32_t> tokens);
  bool make_room(int64_t bytes);
  std::list<std::shared_ptr<Page>>::iterator place_of(const Page& page) const;
  void drop(std::list<std::shared_ptr<Page>>::iterator page);

  const int64_t budget_;
  const Hash hash_;
  mutable std::mutex mutex_;  // guards everything below, and which pages are found
  PrefixStats stats_;
  std::vector<Root> roots_;
  uint64_t next_root_ = 0;
  std::list<std::shared_ptr<Page>> pages_;  // most recently used first
  std::unordered_multimap<uint64_t, std::list<std::shared_ptr<Page>>::iterator> by_hash_;
};

}  // namespace llada
