// Arena placement against brute force properties; the K/V store keeps heads and sequences apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/random.h"
#include "memory/arena_plan.h"
#include "memory/kv_store.h"

namespace llada {
namespace {

int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

TEST(ArenaPlan, BuffersThatLiveTogetherNeverOverlap) {
  for (uint64_t trial = 0; trial < 200; ++trial) {
    std::vector<Lifetime> buffers;
    int64_t total = 0;
    std::vector<int64_t> live(40, 0);
    for (uint64_t i = 0; i < 30; ++i) {
      const auto first = static_cast<int32_t>(uniform(trial, i, 0, 0) * 30),
                 span = static_cast<int32_t>(uniform(trial, i, 1, 0) * 8);
      const auto bytes = static_cast<int64_t>(uniform(trial, i, 2, 0) * 5000);
      buffers.push_back({bytes, first, first + span});
      total += rounded(bytes);
      for (int32_t t = first; t <= first + span; ++t) live[static_cast<size_t>(t)] += rounded(bytes);
    }
    const ArenaPlan plan = plan_arena(buffers);
    EXPECT_LE(plan.bytes, total);
    EXPECT_GE(plan.bytes, *std::ranges::max_element(live)) << "no plan can be below the peak of live bytes";
    for (size_t a = 0; a < buffers.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % 64, 0);
      EXPECT_LE(plan.offsets[a] + buffers[a].bytes, plan.bytes);
      for (size_t b = 0; b < a; ++b) {
        if (buffers[a].last < buffers[b].first || buffers[b].last < buffers[a].first) continue;
        const bool apart = plan.offsets[a] + buffers[a].bytes <= plan.offsets[b] ||
                           plan.offsets[b] + buffers[b].bytes <= plan.offsets[a];
        EXPECT_TRUE(apart) << "trial " << trial << ": " << a << " and " << b;
      }
    }
  }
}

TEST(ArenaPlan, AChainOfTemporariesNeedsTwoSlots) {
  std::vector<Lifetime> chain;
  for (int32_t i = 0; i < 20; ++i) chain.push_back({640, i, i + 1});
  EXPECT_EQ(plan_arena(chain).bytes, 2 * 640);
}

TEST(KvStore, HeadsAreApartAndVersionsStartAbsent) {
  auto kv =
      KvStore::create({.layers = 3, .sequences = 2, .kv_heads = 2, .head_dim = 5, .positions = 7, .type = DType::F32});
  ASSERT_TRUE(kv) << kv.error().message;
  for (int l = 0; l < 3; ++l)
    for (int s = 0; s < 2; ++s)
      for (int h = 0; h < 2; ++h) {
        std::fill_n(reinterpret_cast<float*>(kv->keys(l, s, h)), 35, static_cast<float>(l * 100 + s * 10 + h));
        std::fill_n(reinterpret_cast<float*>(kv->values(l, s, h)), 35, static_cast<float>(-(l * 100 + s * 10 + h) - 1));
      }
  for (int l = 0; l < 3; ++l)
    for (int s = 0; s < 2; ++s)
      for (int h = 0; h < 2; ++h)
        for (int i = 0; i < 35; ++i) {
          ASSERT_EQ(reinterpret_cast<float*>(kv->keys(l, s, h))[i], static_cast<float>(l * 100 + s * 10 + h));
          ASSERT_EQ(reinterpret_cast<float*>(kv->values(l, s, h))[i], static_cast<float>(-(l * 100 + s * 10 + h) - 1));
        }
  EXPECT_EQ(kv->version(1, 6), KvStore::kAbsent);
  kv->set_version(1, 6, 4);
  EXPECT_EQ(kv->version(1, 6), 4);
  EXPECT_EQ(kv->version(0, 6), KvStore::kAbsent);
  kv->clear();
  EXPECT_EQ(kv->version(1, 6), KvStore::kAbsent);
}

TEST(KvStore, AGrownOneHoldsWhatWasThereAndKnowsNothingOfTheRest) {
  auto kv =
      *KvStore::create({.layers = 3, .sequences = 2, .kv_heads = 2, .head_dim = 5, .positions = 7, .type = DType::F32});
  const auto of = [](int l, int s, int h, int i) { return static_cast<float>(l * 1000 + s * 300 + h * 100 + i); };
  const auto each_head = [](const auto& body) {
    for (int l = 0; l < 3; ++l)
      for (int s = 0; s < 2; ++s)
        for (int h = 0; h < 2; ++h) body(l, s, h);
  };
  each_head([&](int l, int s, int h) {
    for (int i = 0; i < 35; ++i) {
      reinterpret_cast<float*>(kv.keys(l, s, h))[i] = of(l, s, h, i);
      reinterpret_cast<float*>(kv.values(l, s, h))[i] = -of(l, s, h, i) - 1;
    }
  });
  ASSERT_TRUE(kv.reserve_digests(&kv, 64));
  kv.set_version(0, 3, 5), kv.set_version(1, 6, 4), kv.set_digested(1, 0, 3);
  auto grown = kv.grown(11);
  ASSERT_TRUE(grown) << grown.error().message;
  EXPECT_EQ(grown->shape().positions, 11);
  each_head([&](int l, int s, int h) {
    for (int i = 0; i < 35; ++i) {
      ASSERT_EQ(reinterpret_cast<float*>(grown->keys(l, s, h))[i], of(l, s, h, i)) << l << s << h;
      ASSERT_EQ(reinterpret_cast<float*>(grown->values(l, s, h))[i], -of(l, s, h, i) - 1) << l << s << h;
    }
  });
  EXPECT_EQ(grown->version(0, 3), 5);
  EXPECT_EQ(grown->version(1, 6), 4);
  EXPECT_EQ(grown->version(1, 7), KvStore::kAbsent);
  EXPECT_EQ(grown->version(0, 10), KvStore::kAbsent);
  ASSERT_TRUE(grown->reserve_digests(&kv, 64));
  EXPECT_FALSE(grown->digested(1, 0, 3)) << "digests were left behind";
}

// Every function that walks over heads, where two layers have few long ones and one many short ones.
TEST(KvStore, LayersMayDifferInTheirHeads) {
  const KvShape shape{.layers = 3, .sequences = 2, .positions = 7, .by_layer = {{4, 3}, {1, 10}, {4, 3}}};
  EXPECT_EQ(KvStore::needed_bytes(shape), 2.0 * 7 * 4 * 2 * (12 + 10 + 12));
  EXPECT_EQ(shape.heads(), 18);
  auto kv = *KvStore::create(shape);
  const auto each = [&](KvStore& store, const auto& body) {
    for (int l = 0; l < 3; ++l)
      for (int s = 0; s < 2; ++s)
        for (int h = 0; h < shape.of(l).heads; ++h)
          for (int i = 0; i < 7 * shape.of(l).head_dim; ++i)
            body(reinterpret_cast<float*>(store.keys(l, s, h))[i], reinterpret_cast<float*>(store.values(l, s, h))[i],
                 static_cast<float>(l * 10000 + s * 1000 + h * 100 + i));
  };
  const auto expect_all = [&](KvStore& store) {
    each(store, [](float k, float v, float expected) {
      ASSERT_EQ(k, expected);
      ASSERT_EQ(v, -expected - 1);
    });
  };
  each(kv, [](float& k, float& v, float value) { k = value, v = -value - 1; });
  expect_all(kv);
  auto grown = *kv.grown(9);
  expect_all(grown);
  const auto saved = kv.save(std::vector<int32_t>{1, 6});
  EXPECT_EQ(std::ssize(saved.data), 2 * kv.sequence_bytes(2));
  std::vector<std::byte> copy(static_cast<size_t>(kv.sequence_bytes(5)));
  kv.read(1, 2, 5, copy.data());
  each(kv, [](float& k, float& v, float) { k = v = 0; });
  kv.put_back(saved);
  kv.write(1, 2, 5, copy.data());
  const auto kept = [&](int s, int p) { return p == 1 || p == 6 || (s == 1 && p >= 2); };
  for (int l = 0; l < 3; ++l)
    for (int s = 0; s < 2; ++s)
      for (int p = 0; p < 7; ++p) {
        const int d = shape.of(l).head_dim, h = shape.of(l).heads - 1;
        const auto value = static_cast<float>(l * 10000 + s * 1000 + h * 100 + p * d);
        EXPECT_EQ(reinterpret_cast<float*>(kv.keys(l, s, h))[p * d], kept(s, p) ? value : 0) << l << s << p;
        EXPECT_EQ(reinterpret_cast<float*>(kv.values(l, s, h))[p * d], kept(s, p) ? -value - 1 : 0) << l << s << p;
      }
}

// What a device has copied is told by position and layer, apart from digests, and to whom the copy belongs.
TEST(KvStore, CopiesAreToldByPosition) {
  KvStore kv = std::move(*KvStore::create({.layers = 2, .sequences = 2, .kv_heads = 1, .head_dim = 8, .positions = 5}));
  const int copy = 0, other = 0;
  kv.set_copied(1, 0, 4);
  EXPECT_FALSE(kv.copied(1, 0, 4)) << "nobody has a copy";
  const int64_t bytes = kv.bytes();
  kv.track_copy(&copy);
  EXPECT_EQ(kv.bytes(), bytes);
  kv.set_copied(1, 0, 4), kv.set_copied(0, 1, 4);
  kv.track_copy(&copy);
  EXPECT_TRUE(kv.copied(1, 0, 4)) << "the same copy";
  EXPECT_FALSE(kv.copied(0, 0, 4) || kv.copied(1, 1, 4) || kv.copied(1, 0, 3));
  ASSERT_TRUE(kv.reserve_digests(&kv, 64));
  EXPECT_TRUE(kv.copied(1, 0, 4));
  EXPECT_FALSE(kv.digested(1, 0, 4));
  kv.changed(1, 0, 4);
  EXPECT_FALSE(kv.copied(1, 0, 4));
  EXPECT_TRUE(kv.copied(0, 1, 4));
  kv.clear();
  EXPECT_FALSE(kv.copied(0, 1, 4));
  kv.set_copied(0, 1, 4);
  kv.track_copy(&other);
  EXPECT_FALSE(kv.copied(0, 1, 4)) << "another copy has nothing";
  kv.set_copied(0, 1, 4);
  kv.forget_copy();
  kv.track_copy(&other);
  EXPECT_FALSE(kv.copied(0, 1, 4)) << "a new one at the same address";
}

// Who has not asked for digests, or has dropped them, has none, whatever it says of them.
TEST(KvStore, WithoutDigestsNothingIsDigested) {
  KvStore kv = std::move(*KvStore::create({.layers = 2, .sequences = 1, .kv_heads = 1, .head_dim = 8, .positions = 5}));
  const auto nothing = [&] {
    kv.set_digested(1, 0, 4);
    kv.changed(1, 0, 4);
    return !kv.digested(1, 0, 4) && !kv.digested(0, 0, 0);
  };
  EXPECT_TRUE(nothing());
  const int64_t without = kv.bytes();
  ASSERT_TRUE(kv.reserve_digests(&kv, 64));
  kv.set_digested(1, 0, 4);
  EXPECT_TRUE(kv.digested(1, 0, 4));
  kv.drop_digests();
  EXPECT_TRUE(nothing());
  EXPECT_EQ(kv.bytes(), without);
  ASSERT_TRUE(kv.reserve_digests(&kv, 64));
  EXPECT_FALSE(kv.digested(1, 0, 4)) << "they are made anew";
}

TEST(KvStore, ImpossibleSizeIsAnError) {
  const auto kv = KvStore::create({.layers = 1000,
                                   .sequences = 2,
                                   .kv_heads = 1000,
                                   .head_dim = 1000,
                                   .positions = int64_t{1} << 30,
                                   .type = DType::F32});
  ASSERT_FALSE(kv);
  EXPECT_EQ(exit_status(kv.error()), 1);
}

// In a test program (tests/hostile_memory.cc): a store that is new or cleared holds NaN, and a digest that nobody made
// zeros.
TEST(KvStore, NothingIsLeftOfWhatWasForgotten) {
  if (std::string_view(std::getenv("LLADA_POISON")) == "0") GTEST_SKIP() << "turned off by the environment";
  auto kv = *KvStore::create(
      {.layers = 2, .sequences = 1, .kv_heads = 2, .head_dim = 8, .positions = 20, .type = DType::F16});
  const auto all = [&](std::byte value) {
    return std::all_of(kv.memory(), kv.memory() + 2 * kv.half_bytes(), [&](std::byte b) { return b == value; });
  };
  EXPECT_TRUE(all(std::byte{0xff}));
  ASSERT_TRUE(kv.reserve_digests(&kv, 640));
  EXPECT_TRUE(std::all_of(kv.digest(0, 0, 0), kv.digest(1, 0, 1) + 640, [](std::byte b) { return b == std::byte{0}; }));
  std::memset(kv.memory(), 1, static_cast<size_t>(2 * kv.half_bytes()));
  kv.set_version(0, 3, 5);
  kv.set_digested(1, 0, 3);
  kv.clear();
  EXPECT_TRUE(all(std::byte{0xff}));
  EXPECT_EQ(kv.version(0, 3), KvStore::kAbsent);
  EXPECT_FALSE(kv.digested(1, 0, 3)) << "of what is gone";
}

}  // namespace
}  // namespace llada
