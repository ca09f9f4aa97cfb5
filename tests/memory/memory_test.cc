// Arena placement against brute force properties; the K/V store keeps heads and sequences apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "memory/arena_plan.h"
#include "memory/kv_store.h"
#include "must.h"

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
  auto kv = must(
      KvStore::create({.layers = 3, .sequences = 2, .kv_heads = 2, .head_dim = 5, .positions = 7, .type = DType::F32}));
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
  kv.set_version(0, 3, 5), kv.set_version(1, 6, 4), kv.renewed(KvViewer::digests, 1, 0, 3);
  auto grown = must(kv.grown(11));
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
  EXPECT_FALSE(grown->fresh(KvViewer::digests, 1, 0, 3)) << "digests were left behind";
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

// Whoever has not asked for a view has nothing, whatever it says of rows; another owner begins anew.
TEST(KvStore, AViewIsItsOwners) {
  KvStore kv = std::move(*KvStore::create({.layers = 2, .sequences = 2, .kv_heads = 1, .head_dim = 8, .positions = 5}));
  const int copy = 0, other = 0;
  for (const KvViewer viewer : {KvViewer::gpu, KvViewer::digests}) {
    const auto fresh = [&](int layer, int sequence) { return kv.fresh(viewer, layer, sequence, 4); };
    kv.renewed(viewer, 1, 0, 4), kv.wrote(KvViewer::memory, 1, 0, 4);
    EXPECT_FALSE(fresh(1, 0)) << "nobody looks";
    kv.look(viewer, &copy);
    kv.renewed(viewer, 1, 0, 4), kv.renewed(viewer, 0, 1, 4);
    kv.look(viewer, &copy);
    EXPECT_TRUE(fresh(1, 0) && fresh(0, 1)) << "the same owner";
    EXPECT_FALSE(fresh(0, 0) || fresh(1, 1) || kv.fresh(viewer, 1, 0, 3));
    kv.wrote(KvViewer::memory, 1, 0, 4);
    EXPECT_FALSE(fresh(1, 0));
    EXPECT_TRUE(fresh(0, 1));
    kv.clear();
    EXPECT_FALSE(fresh(0, 1));
    kv.renewed(viewer, 0, 1, 4), kv.look(viewer, &other);
    EXPECT_FALSE(fresh(0, 1)) << "another owner";
    kv.renewed(viewer, 0, 1, 4), kv.look(viewer, nullptr), kv.look(viewer, &other);
    EXPECT_FALSE(fresh(0, 1)) << "a new one at the same address";
    kv.look(viewer, nullptr);
  }
  const int64_t without = kv.bytes();
  ASSERT_TRUE(kv.reserve_digests(&kv, 64));
  EXPECT_EQ(kv.bytes(), without + 2 * 2 * 64);
}

// The host, its digests, a GPU and a DSP on one store, at random. The plain model is one number for each row: the last
// one written. Each viewer has copies of its own, which it renews as the store says, and must then see that number.
class KvViewers {
 public:
  explicit KvViewers(unsigned seed) : random_(seed) {
    for (int64_t i = 0; i < kRows; ++i) memory(layer(i), sequence(i), position(i)) = truth_[static_cast<size_t>(i)] = 0;
    kv_.keep_with(std::make_shared<Keeper>(*this));
    EXPECT_TRUE(kv_.reserve_digests(this, 64));
    kv_.look(KvViewer::gpu, this);
  }

  void step() {
    switch (below(9)) {
      case 0: {  // the host's kernels
        kv_.flush();
        for (const int64_t row : some_rows()) write(row, KvViewer::memory);
        break;
      }
      case 1: {  // the GPU, into both
        kv_.flush();
        for (const int64_t row : some_rows()) {
          write(row, KvViewer::memory);
          gpu_[static_cast<size_t>(row)] = truth_[static_cast<size_t>(row)];
          kv_.renewed(KvViewer::gpu, layer(row), sequence(row), position(row));
        }
        break;
      }
      case 2: {  // the DSP, after it has dropped what others wrote, whole positions
        tell_dsp();
        const int64_t p = below(kPositions);
        for (int64_t row = 0; row < kRows; ++row)
          if (position(row) == p) write(row, KvViewer::dsp);
        break;
      }
      case 3: {
        const auto p = static_cast<int32_t>(below(kPositions));
        saved_ = kv_.save(std::vector<int32_t>{p});
        kept_ = truth_;
        break;
      }
      case 4: {
        kv_.put_back(saved_);
        for (int64_t row = 0; row < kRows; ++row)
          if (std::ranges::count(saved_.positions, position(row)) > 0)
            truth_[static_cast<size_t>(row)] = kept_[static_cast<size_t>(row)];
        break;
      }
      case 5: {  // another GPU's copy, of which nothing is known
        kv_.look(KvViewer::gpu, &gpu_[static_cast<size_t>(below(2))]);
        break;
      }
      case 6:
        kv_.flush();
        expect_seen(KvViewer::memory, [&](int64_t row) { return memory(layer(row), sequence(row), position(row)); });
        break;
      case 7:
        tell_dsp();
        expect_seen(KvViewer::dsp, [&](int64_t row) { return dsp_read(row); });
        break;
      default:
        kv_.flush();
        renew(KvViewer::digests, digests_), renew(KvViewer::gpu, gpu_);
        expect_seen(KvViewer::digests, [&](int64_t row) { return digests_[static_cast<size_t>(row)]; });
        expect_seen(KvViewer::gpu, [&](int64_t row) { return gpu_[static_cast<size_t>(row)]; });
    }
  }

 private:
  struct Keeper final : KvKeeper {
    explicit Keeper(KvViewers& owner) : viewers(owner) {}
    void flush(std::span<const KvRows> rows) override {
      for (const KvRows& r : rows)
        for (int64_t row = 0; row < kRows; ++row)
          if (position(row) >= r.first && position(row) < r.last)
            viewers.memory(layer(row), sequence(row), position(row)) = viewers.dsp_[static_cast<size_t>(row)];
    }
    KvViewers& viewers;
  };
  static constexpr int kLayers = 2, kSequences = 2;
  static constexpr int64_t kPositions = 6, kRows = kLayers * kSequences * kPositions;
  using Rows = std::array<float, kRows>;

  static size_t index(int l, int s, int64_t p) { return static_cast<size_t>((l * kSequences + s) * kPositions + p); }
  static int layer(int64_t row) { return static_cast<int>(row / kPositions / kSequences); }
  static int sequence(int64_t row) { return static_cast<int>(row / kPositions % kSequences); }
  static int64_t position(int64_t row) { return row % kPositions; }
  int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random_); }
  std::vector<int64_t> some_rows() {
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < kRows; ++row)
      if (below(4) == 0) rows.push_back(row);
    return rows;
  }
  float& memory(int l, int s, int64_t p) { return reinterpret_cast<float*>(kv_.keys(l, s, 0))[p]; }

  void write(int64_t row, KvViewer by) {
    const auto i = static_cast<size_t>(row);
    truth_[i] = next_++;
    if (by == KvViewer::dsp) dsp_[i] = truth_[i], in_cache_[i] = true;
    if (by == KvViewer::memory) memory(layer(row), sequence(row), position(row)) = truth_[i];
    kv_.wrote(by, layer(row), sequence(row), position(row));
  }
  // Drops lines from the DSP's cache.
  void tell_dsp() {
    for (const KvRows& r : kv_.take_stale())
      for (int64_t row = 0; row < kRows; ++row)
        if (position(row) >= r.first && position(row) < r.last) in_cache_[static_cast<size_t>(row)] = false;
  }
  float dsp_read(int64_t row) {
    const auto i = static_cast<size_t>(row);
    if (!in_cache_[i]) dsp_[i] = memory(layer(row), sequence(row), position(row)), in_cache_[i] = true;
    return dsp_[i];
  }
  void renew(KvViewer viewer, Rows& copy) {
    for (int64_t row = 0; row < kRows; ++row) {
      if (kv_.fresh(viewer, layer(row), sequence(row), position(row))) continue;
      copy[static_cast<size_t>(row)] = memory(layer(row), sequence(row), position(row));
      kv_.renewed(viewer, layer(row), sequence(row), position(row));
    }
  }
  void expect_seen(KvViewer viewer, const std::function<float(int64_t)>& seen) {
    for (int64_t row = 0; row < kRows; ++row)
      ASSERT_EQ(seen(row), truth_[static_cast<size_t>(row)]) << static_cast<int>(viewer) << " row " << row;
  }

  std::mt19937 random_;
  KvStore kv_ = std::move(*KvStore::create(
      {.layers = kLayers, .sequences = kSequences, .kv_heads = 1, .head_dim = 1, .positions = kPositions}));
  Rows truth_{}, digests_{}, gpu_{}, dsp_{}, kept_{};
  std::array<bool, kRows> in_cache_{};
  KvStore::Saved saved_;
  float next_ = 1;
};

TEST(KvStore, EveryViewerSeesTheLastWrite) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    KvViewers viewers(seed);
    for (int i = 0; i < 60 && !testing::Test::HasFailure(); ++i) viewers.step();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
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
  kv.renewed(KvViewer::digests, 1, 0, 3);
  kv.clear();
  EXPECT_TRUE(all(std::byte{0xff}));
  EXPECT_EQ(kv.version(0, 3), KvStore::kAbsent);
  EXPECT_FALSE(kv.fresh(KvViewer::digests, 1, 0, 3)) << "of what is gone";
}

}  // namespace
}  // namespace llada
