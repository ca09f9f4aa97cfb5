// Attention of every table against the oracle: stored types, head sizes, key counts around every tile,
// prefixes, strides, and the independence of a row from its batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "kernel_test_data.h"

namespace llada::kernels {
namespace {

using namespace testing;

struct Case {
  int64_t head_dim, keys, rows;
  DType type;
};

struct Data {
  Data(const Case& c, float spread, uint64_t seed)
      : shape(c),
        q_stride(c.head_dim + 7),
        out_stride(c.head_dim + 3),
        k(c.keys * c.head_dim * element(c)),
        v(k.size()) {
    Random random(seed);
    q.resize(static_cast<size_t>(c.rows * q_stride), std::numeric_limits<float>::quiet_NaN());
    for (int64_t r = 0; r < c.rows; ++r)
      for (int64_t i = 0; i < c.head_dim; ++i) q[static_cast<size_t>(r * q_stride + i)] = random.normal() * spread;
    fill(k, random);
    fill(v, random);
  }

  static int64_t element(const Case& c) { return c.type == DType::F16 ? 2 : 4; }

  void fill(Bytes& bytes, Random& random) const {
    for (int64_t i = 0; i < shape.keys * shape.head_dim; ++i) {
      const float value = random.normal();
      const uint16_t half = float_to_f16(value);
      std::memcpy(bytes.data() + i * element(shape),
                  shape.type == DType::F16 ? static_cast<const void*>(&half) : &value,
                  static_cast<size_t>(element(shape)));
    }
  }

  std::vector<float> run(const KernelTable& table, const KeyRange* row_keys, int64_t r0, int64_t r1) const {
    std::vector<float> out(static_cast<size_t>(shape.rows * out_stride), kPoison);
    std::vector<float> scratch(static_cast<size_t>(attention_scratch(shape.keys)));
    table.attention({q.data(), q_stride, k.data(), v.data(), shape.type, shape.keys, shape.head_dim,
                     1 / std::sqrt(static_cast<float>(shape.head_dim)), r0, r1, row_keys, scratch.data(), out.data(),
                     out_stride, nullptr, 0, cap});
    return out;
  }

  Case shape;
  float cap = 0;
  int64_t q_stride, out_stride;
  std::vector<float> q;
  Bytes k, v;
};

// A score is off by at most head_dim roundings of sum |q||k| (a few units after scaling); exp turns that into
// a relative error of the weights, and normalising doubles it. Values stay below 3.5 in magnitude.
double limit(const Case& c, double spread) {
  const double epsilon = std::numeric_limits<float>::epsilon();
  const double score = spread * std::sqrt(static_cast<double>(c.head_dim)) * 4;
  return 3.5 * epsilon *
         (2 * score * std::sqrt(static_cast<double>(c.head_dim)) + 4 * std::sqrt(static_cast<double>(c.keys)) + 32);
}

void expect_close(const KernelTable& table, const Data& data, const KeyRange* row_keys, double spread) {
  const Case& c = data.shape;
  const std::vector<float> want = data.run(*scalar_table(), row_keys, 0, c.rows);
  const std::vector<float> got = data.run(table, row_keys, 0, c.rows);
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got[i], want[i], limit(c, spread)) << table.isa << " " << traits(c.type).name << " head " << c.head_dim
                                                   << " keys " << c.keys << " rows " << c.rows << " at " << i;
}

TEST(Attention, KeyCountsAndRowCounts) {
  for (const KernelTable* table : available())
    for (const DType type : {DType::F32, DType::F16})
      for (const int64_t keys : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 65, 127, 129, 500, 1031})
        for (const int64_t rows : {1, 2, 3, 5, 8, 17, 32, 49})
          expect_close(*table, Data({64, keys, rows, type}, 1, 31), nullptr, 1);
}

TEST(Attention, HeadSizes) {
  for (const KernelTable* table : available())
    for (const DType type : {DType::F32, DType::F16})
      for (const int64_t head_dim : {8, 16, 32, 40, 64, 80, 96, 112, 128, 256, 296})
        for (const int64_t rows : {1, 7, 20})
          expect_close(*table, Data({head_dim, 203, rows, type}, 1, 32), nullptr, 1);
}

TEST(Attention, SharpScores) {  // one key takes nearly everything; the others' weights underflow
  for (const KernelTable* table : available())
    for (const DType type : {DType::F32, DType::F16})
      expect_close(*table, Data({128, 300, 9, type}, 40, 33), nullptr, 40);
}

// Scores of thousands meet at the cap, where all keys weigh alike; small ones are as without it.
TEST(Attention, SoftCappedScores) {
  for (const KernelTable* table : available())
    for (const DType type : {DType::F32, DType::F16})
      for (const int64_t head_dim : {24, 64, 80, 128})
        for (const int64_t keys : {1, 3, 33, 129, 300})
          for (const float spread : {1.0f, 40.0f, 300.0f}) {
            Data data({head_dim, keys, 19, type}, spread, 33);
            data.cap = 5;
            // A score is off by less than its cap's share; the cap bounds what that does to a weight.
            expect_close(*table, data, nullptr, 40);
          }
}

TEST(Attention, ACapThatNoScoreReachesChangesNothing) {
  for (const KernelTable* table : available()) {
    Data data({64, 77, 9, DType::F32}, 1, 33);
    const std::vector<float> without = data.run(*table, nullptr, 0, 9);
    data.cap = 1e4f;
    const std::vector<float> with = data.run(*table, nullptr, 0, 9);
    data.cap = 1;
    const std::vector<float> narrow = data.run(*table, nullptr, 0, 9);
    double most = 0;
    for (size_t i = 0; i < with.size(); ++i) {
      ASSERT_NEAR(with[i], without[i], 0.02) << table->isa;
      most = std::max<double>(most, std::fabs(narrow[i] - without[i]));
    }
    EXPECT_GT(most, 0.05) << table->isa << ": a cap of 1 has an effect";
  }
}

// An infinite score would meet a finite cap.
TEST(Attention, ACapHidesNoDamage) {
  for (const KernelTable* table : available())
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()})
      for (const int64_t rows : {1, 4, 20}) {
        Data data({64, 50, rows, DType::F32}, 1, 33);
        data.cap = 30;
        std::memcpy(data.k.data() + 4 * (17 * 64 + 5), &bad, 4);
        const std::vector<float> out = data.run(*table, nullptr, 0, rows);
        for (int64_t r = 0; r < rows; ++r)
          EXPECT_TRUE(std::isnan(out[static_cast<size_t>(r * data.out_stride)])) << table->isa << " " << bad;
      }
}

TEST(Attention, CappedRowsAloneEqualThoseInABatch) {
  for (const KernelTable* table : available()) {
    Data data({80, 133, 21, DType::F16}, 2, 36);
    data.cap = 2;
    std::vector<KeyRange> ranges;
    for (int32_t r = 0; r < 21; ++r) ranges.push_back({r * 5, r * 5 + 1 + r});
    const std::vector<float> batch = data.run(*table, ranges.data(), 0, 21);
    for (int64_t r = 0; r < 21; ++r) {
      const std::vector<float> alone = data.run(*table, ranges.data(), r, r + 1);
      for (int64_t i = r * data.out_stride; i < r * data.out_stride + 80; ++i)
        ASSERT_EQ(alone[static_cast<size_t>(i)], batch[static_cast<size_t>(i)]) << table->isa << " row " << r;
    }
  }
}

TEST(Attention, PrefixesPerRow) {
  for (const KernelTable* table : available())
    for (const DType type : {DType::F32, DType::F16}) {
      const Data data({64, 150, 20, type}, 1, 34);
      std::vector<KeyRange> row_keys;
      for (int64_t r = 0; r < 20; ++r) row_keys.push_back(prefix(1 + (r * 37) % 150));
      row_keys[5] = prefix(150);
      expect_close(*table, data, row_keys.data(), 1);
    }
}

TEST(Attention, KeysBeyondThePrefixAreNotRead) {
  for (const KernelTable* table : available()) {
    Data data({64, 100, 40, DType::F32}, 1, 35);
    std::vector<KeyRange> row_keys;
    for (const int64_t n : {1, 5, 16, 17, 33, 60, 60, 60, 59, 1, 2, 3, 4, 5, 6, 7, 8}) row_keys.push_back(prefix(n));
    const auto with_prefix = [&] {  // the rows behind these see everything
      std::vector<float> out = data.run(*table, row_keys.data(), 0, 40);
      out.resize(16 * static_cast<size_t>(data.out_stride));
      return out;
    };
    row_keys.resize(40, prefix(100));
    const std::vector<float> before = with_prefix();
    const float bad = std::numeric_limits<float>::quiet_NaN();
    for (int64_t i = 60 * 64; i < 100 * 64; ++i) {
      std::memcpy(data.k.data() + 4 * i, &bad, 4);
      std::memcpy(data.v.data() + 4 * i, &bad, 4);
    }
    EXPECT_EQ(with_prefix(), before) << table->isa;
  }
}

TEST(Attention, RowAloneEqualsRowInBatchBitForBit) {
  for (const KernelTable* table : available())
    for (const DType type : {DType::F32, DType::F16})
      for (const bool prefixes : {false, true}) {
        const Data data({128, 333, 21, type}, 2, 36);
        std::vector<KeyRange> row_keys;
        for (int64_t r = 0; r < 21; ++r) row_keys.push_back(prefix(1 + (r * 97) % 333));
        const KeyRange* visible = prefixes ? row_keys.data() : nullptr;
        const std::vector<float> batch = data.run(*table, visible, 0, 21);
        for (int64_t r = 0; r < 21; ++r) {
          const std::vector<float> alone = data.run(*table, visible, r, r + 1);
          for (size_t i = 0; i < alone.size(); ++i) {
            const bool mine = static_cast<int64_t>(i) / data.out_stride == r;
            const float want = mine ? batch[i] : kPoison;
            ASSERT_EQ(std::memcmp(&alone[i], &want, 4), 0) << table->isa << " row " << r << " at " << i;
          }
        }
      }
}

// A prefix computed as a prefix of a longer cache equals the same keys stored alone.
TEST(Attention, PrefixEqualsShorterCacheBitForBit) {
  for (const KernelTable* table : available()) {
    const Data data({64, 200, 5, DType::F16}, 1, 37);
    const std::vector<KeyRange> row_keys(5, prefix(77));
    Data shorter = Data(data.shape, 1, 37);
    shorter.shape.keys = 77;
    EXPECT_EQ(data.run(*table, row_keys.data(), 0, 5), shorter.run(*table, nullptr, 0, 5)) << table->isa;
  }
}

// Ranges that begin and end at and beside the borders of tiles and blocks, next to each other in one call.
std::vector<KeyRange> ranges_at_borders(int32_t keys) {
  std::vector<KeyRange> ranges;
  std::vector<int32_t> borders = {0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 192};
  for (size_t i = 0; i < borders.size(); ++i)
    for (const size_t behind : {size_t{1}, size_t{4}, size_t{9}, borders.size()}) {
      const int32_t last = i + behind < borders.size() ? borders[i + behind] : keys - static_cast<int32_t>(i % 3);
      ranges.push_back({borders[i], last});
    }
  ranges.push_back({keys - 1, keys});
  return ranges;
}

TEST(Attention, RangesEqualTheOracle) {
  for (const KernelTable* table : available())
    for (const DType type : {DType::F32, DType::F16})
      for (const int64_t head_dim : {64, 40}) {
        const std::vector<KeyRange> ranges = ranges_at_borders(200);
        const Data data({head_dim, 200, std::ssize(ranges), type}, 1, 38);
        expect_close(*table, data, ranges.data(), 1);
      }
}

// Each row alone, over a store in which nothing but its range is a number, equals the row among the others.
TEST(Attention, ARowReadsNothingOutsideOfItsRange) {
  for (const KernelTable* table : available())
    for (const DType type : {DType::F32, DType::F16}) {
      const std::vector<KeyRange> ranges = ranges_at_borders(200);
      const Data data({64, 200, std::ssize(ranges), type}, 1, 39);
      const int64_t rows = std::ssize(ranges), row_bytes = 64 * Data::element(data.shape);
      const std::vector<float> batch = data.run(*table, ranges.data(), 0, rows);
      for (int64_t r = 0; r < rows; ++r) {
        const KeyRange seen = ranges[static_cast<size_t>(r)];
        const Data poisoned(data.shape, 1, 39);  // the same numbers
        for (const Bytes* bytes : {&poisoned.k, &poisoned.v}) {
          std::memset(bytes->data(), 0xff, static_cast<size_t>(seen.first * row_bytes));  // NaN in both types
          std::memset(bytes->data() + seen.last * row_bytes, 0xff, static_cast<size_t>((200 - seen.last) * row_bytes));
        }
        const std::vector<float> alone = poisoned.run(*table, ranges.data(), r, r + 1);
        for (int64_t i = r * data.out_stride; i < r * data.out_stride + 64; ++i)
          ASSERT_EQ(alone[static_cast<size_t>(i)], batch[static_cast<size_t>(i)])
              << table->isa << " row " << r << " [" << seen.first << ", " << seen.last << ")";
      }
    }
}

}  // namespace
}  // namespace llada::kernels
