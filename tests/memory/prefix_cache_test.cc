// A shared prefix: the same bits come back, and only for the same tokens, model, type and geometry; pages that somebody
// stands on stay, whatever the budget; several threads.
#include "memory/prefix_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <thread>

#include "base/random.h"

namespace llada {
namespace {

constexpr int64_t kBlock = 4;
const KvShape kShape = {.layers = 2, .sequences = 1, .kv_heads = 3, .head_dim = 5, .positions = 40, .type = DType::F32};
const int64_t kPage = 2 * 2 * 3 * 5 * 4 * kBlock;  // bytes

std::vector<int32_t> tokens_of(uint64_t seed, int64_t count) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>(uniform(seed, static_cast<uint64_t>(i), 0, 0) * 1000));
  return tokens;
}

// What a block-causal model would compute: of a position, a function of all tokens up to the end of its block.
void compute(std::span<const int32_t> tokens, KvStore& store) {
  for (size_t p = 0; p < tokens.size(); ++p) {
    uint64_t seen = 0;
    for (size_t q = 0; q < (p / kBlock + 1) * kBlock && q < tokens.size(); ++q)
      seen = mix64(seen + kRandomStep + static_cast<uint64_t>(tokens[q]));
    for (int l = 0; l < kShape.layers; ++l)
      for (int h = 0; h < kShape.kv_heads; ++h)
        for (std::byte* half : {store.keys(l, 0, h), store.values(l, 0, h)})
          for (int d = 0; d < kShape.head_dim; ++d) {
            const auto value = static_cast<float>(uniform(seen, p, static_cast<uint64_t>(l * 10 + h),
                                                          static_cast<uint64_t>(d) + (half == store.keys(l, 0, h))));
            std::memcpy(half + 4 * (static_cast<int64_t>(p) * kShape.head_dim + d), &value, 4);
          }
    store.set_version(0, static_cast<int64_t>(p), 3);
  }
}

KvStore new_store(const KvShape& shape = kShape) { return std::move(*KvStore::create(shape)); }
KvStore computed(std::span<const int32_t> tokens) {
  KvStore store = new_store();
  compute(tokens, store);
  return store;
}
std::vector<std::byte> bytes_of(const KvStore& store, int64_t positions) {
  std::vector<std::byte> bytes(static_cast<size_t>(store.sequence_bytes(positions)));
  store.read(0, 0, positions, bytes.data());
  return bytes;
}
std::shared_ptr<const void> new_model() { return std::make_shared<const int>(1); }

int64_t publish(PrefixCache& cache, const std::shared_ptr<const void>& model, std::span<const int32_t> tokens) {
  auto cursor = cache.begin(model, kShape, kBlock);
  cache.publish(cursor, tokens, computed(tokens));
  return cursor.positions();
}
// Positions that were found, with the right bits in them.
int64_t found(PrefixCache& cache, const std::shared_ptr<const void>& model, std::span<const int32_t> tokens) {
  KvStore store = new_store();
  auto cursor = cache.begin(model, kShape, kBlock);
  const int64_t n = cache.fill(cursor, tokens, store);
  EXPECT_EQ(bytes_of(store, n), bytes_of(computed(tokens), n));
  for (int64_t p = 0; p < kShape.positions; ++p) EXPECT_EQ(store.version(0, p), p < n ? 0 : KvStore::kAbsent);
  return n;
}

TEST(PrefixCache, WholeBlocksComeBackBitForBit) {
  PrefixCache cache(int64_t{1} << 20);
  const auto model = new_model();
  auto tokens = tokens_of(1, 18);
  EXPECT_EQ(found(cache, model, tokens), 0);
  EXPECT_EQ(publish(cache, model, tokens), 16) << "the last two fill no block";
  EXPECT_EQ(found(cache, model, tokens), 16);
  EXPECT_EQ(found(cache, model, std::span(tokens).first(11)), 8);
  tokens[9] += 1;  // a conversation that went another way
  EXPECT_EQ(found(cache, model, tokens), 8);
  EXPECT_EQ(publish(cache, model, tokens), 16);
  EXPECT_EQ(found(cache, model, tokens), 16);
  EXPECT_EQ(cache.stats().pages, 6) << "the first two blocks are shared";
  EXPECT_EQ(cache.stats().bytes, 6 * kPage);
}

TEST(PrefixCache, ABlockIsKnownOnlyBehindItsOwnPrefix) {
  PrefixCache cache(int64_t{1} << 20);
  const auto model = new_model();
  auto tokens = tokens_of(1, 12);
  publish(cache, model, tokens);
  tokens[0] += 1;
  EXPECT_EQ(found(cache, model, tokens), 0);
  std::vector<int32_t> second(tokens.begin() + 4, tokens.end());
  EXPECT_EQ(found(cache, model, second), 0) << "the same tokens at other positions";
}

TEST(PrefixCache, EqualHashesAreNotEqualTokens) {
  PrefixCache cache(int64_t{1} << 20, [](uint64_t, std::span<const int32_t>) { return uint64_t{7}; });
  const auto model = new_model();
  for (uint64_t seed = 0; seed < 5; ++seed) publish(cache, model, tokens_of(seed, 12));
  for (uint64_t seed = 0; seed < 5; ++seed) EXPECT_EQ(found(cache, model, tokens_of(seed, 12)), 12);
  EXPECT_EQ(found(cache, model, tokens_of(5, 12)), 0);
}

TEST(PrefixCache, AnotherModelTypeOrGeometryFindsNothing) {
  PrefixCache cache(int64_t{1} << 20);
  auto model = new_model();
  const auto tokens = tokens_of(1, 12);
  publish(cache, model, tokens);
  const auto fills = [&](const std::shared_ptr<const void>& of, const KvShape& shape, int64_t block) {
    KvStore store = new_store(shape);
    auto cursor = cache.begin(of, shape, block);
    return cache.fill(cursor, tokens, store);
  };
  EXPECT_EQ(fills(model, kShape, kBlock), 12);
  EXPECT_EQ(fills(new_model(), kShape, kBlock), 0);
  EXPECT_EQ(fills(model, kShape, 2), 0);
  KvShape other = kShape;
  other.type = DType::F16;
  EXPECT_EQ(fills(model, other, kBlock), 0);
  other = kShape;
  other.layers = 1;
  EXPECT_EQ(fills(model, other, kBlock), 0);
  other = kShape;
  other.positions = 20, other.sequences = 2;  // of the request alone
  EXPECT_EQ(fills(model, other, kBlock), 12);
  // A model that is gone is nobody's twin, wherever the next one lies.
  for (int i = 0; i < 20; ++i) {
    model = nullptr;
    model = new_model();
    EXPECT_EQ(fills(model, kShape, kBlock), 0);
  }
}

TEST(PrefixCache, WithoutABudgetNothingIsKept) {
  PrefixCache cache(0);
  const auto model = new_model();
  EXPECT_EQ(publish(cache, model, tokens_of(1, 12)), 0);
  EXPECT_EQ(found(cache, model, tokens_of(1, 12)), 0);
  EXPECT_EQ(cache.stats().bytes, 0);
}

TEST(PrefixCache, TheLongestUnusedGoesAndWhatIsStoodOnStays) {
  PrefixCache cache(6 * kPage + 1);
  const auto model = new_model();
  publish(cache, model, tokens_of(1, 12));
  publish(cache, model, tokens_of(2, 12));
  EXPECT_EQ(found(cache, model, tokens_of(1, 12)), 12);  // used again
  publish(cache, model, tokens_of(3, 8));
  EXPECT_EQ(found(cache, model, tokens_of(1, 12)), 12);
  EXPECT_EQ(found(cache, model, tokens_of(2, 12)), 4) << "its ends went first";
  EXPECT_EQ(cache.stats().evicted, 2);
  EXPECT_EQ(cache.stats().bytes, 6 * kPage);

  KvStore store = new_store();
  auto standing = cache.begin(model, kShape, kBlock);
  ASSERT_EQ(cache.fill(standing, tokens_of(1, 12), store), 12);
  EXPECT_EQ(publish(cache, model, tokens_of(4, 40)), 12) << "three of six pages are free";
  EXPECT_EQ(found(cache, model, tokens_of(1, 12)), 12);
  standing = {};
  EXPECT_EQ(publish(cache, model, tokens_of(5, 40)), 24);
  EXPECT_EQ(found(cache, model, tokens_of(1, 12)), 0);
  EXPECT_EQ(cache.stats().bytes, 6 * kPage);
}

// A request that ends between two blocks, and one that goes on where there was no room before.
// Whatever is used, released and kept in any order: the budget holds, what is found has the right bits (found() looks),
// what a cursor stands on stays, and when nobody stands anywhere all room can be had again.
TEST(PrefixCache, RoomIsMadeInAnyOrder) {
  const auto model = new_model();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    PrefixCache cache(6 * kPage);
    std::map<uint64_t, PrefixCache::Cursor> held;
    auto random = [&, n = uint64_t{0}](uint64_t below) mutable { return mix64(seed * 1000 + ++n) % below; };
    for (int i = 0; i < 60; ++i) {
      // A tree: conversations share their first blocks.
      auto tokens = tokens_of(random(3), 8);
      const auto rest = tokens_of(100 + random(6), 4 * static_cast<int64_t>(random(5)));
      tokens.insert(tokens.end(), rest.begin(), rest.end());
      if (random(3) == 0) {
        found(cache, model, tokens);
      } else {
        auto cursor = cache.begin(model, kShape, kBlock);
        cache.publish(cursor, tokens, computed(tokens));
        if (random(2) == 0) held[random(3)] = cursor;
      }
      ASSERT_LE(cache.stats().bytes, 6 * kPage);
      ASSERT_EQ(cache.stats().bytes, cache.stats().pages * kPage);
      if (random(4) == 0) held.erase(random(3));
    }
    held.clear();
    EXPECT_EQ(publish(cache, model, tokens_of(999, 24)), 24) << "six pages, all of the budget";
    EXPECT_EQ(found(cache, model, tokens_of(999, 24)), 24);
  }
}

// Models come and go: what is known of those that are gone does not grow, and no new one finds their pages.
TEST(PrefixCache, ModelsThatAreGoneLeaveNothingToBeFound) {
  PrefixCache cache(6 * kPage);
  const auto tokens = tokens_of(1, 8);
  for (int i = 0; i < 100; ++i) {
    const auto model = new_model();
    EXPECT_EQ(found(cache, model, tokens), 0) << i;
    EXPECT_EQ(publish(cache, model, tokens), 8) << i;
    EXPECT_EQ(found(cache, model, tokens), 8) << i;
    EXPECT_LE(cache.stats().bytes, 6 * kPage);
  }
}

TEST(PrefixCache, HalfAPrefixIsAPrefix) {
  PrefixCache cache(4 * kPage);
  const auto model = new_model();
  const auto tokens = tokens_of(1, 16);
  {
    auto cancelled = cache.begin(model, kShape, kBlock);
    cache.publish(cancelled, std::span(tokens).first(8), computed(tokens));
  }
  EXPECT_EQ(found(cache, model, tokens), 8);
  auto other = cache.begin(model, kShape, kBlock);
  cache.publish(other, tokens_of(2, 8), computed(tokens_of(2, 8)));
  auto later = cache.begin(model, kShape, kBlock);
  KvStore store = new_store();
  ASSERT_EQ(cache.fill(later, tokens, store), 8);
  compute(tokens, store);
  cache.publish(later, tokens, store);
  EXPECT_EQ(later.positions(), 8) << "all pages are stood on";
  other = {};
  cache.publish(later, tokens, store);
  EXPECT_EQ(later.positions(), 16);
  EXPECT_EQ(found(cache, model, tokens), 16);
}

// labels: threads
TEST(PrefixCache, ThreadsShareIt) {
  PrefixCache cache(12 * kPage);  // less than all of them publish
  const auto model = new_model();
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (uint64_t i = 0; i < 60; ++i) {
          // A common beginning, then one of five ends.
          auto tokens = tokens_of(1, 8);
          const auto end = tokens_of(2 + mix64(t * 100 + i) % 5, 12);
          tokens.insert(tokens.end(), end.begin(), end.end());
          KvStore store = new_store();
          auto cursor = cache.begin(model, kShape, kBlock);
          const int64_t n = cache.fill(cursor, tokens, store);
          EXPECT_EQ(bytes_of(store, n), bytes_of(computed(tokens), n));
          compute(tokens, store);
          cache.publish(cursor, tokens, store);
        }
      });
  }
  EXPECT_LE(cache.stats().bytes, 12 * kPage);
  EXPECT_GT(cache.stats().found, 0);
  EXPECT_GT(cache.stats().evicted, 0);
}

}  // namespace
}  // namespace llada
