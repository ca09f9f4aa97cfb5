// Attention over digests: its error against the oracle on normal and on hostile keys and values, what a row may depend
// on, and digests renewed in parts.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "kernel_test_data.h"

namespace llada::kernels {
namespace {

using namespace testing;

std::vector<const KernelTable*> digesting() {
  std::vector<const KernelTable*> found;
  for (const KernelTable* table : available())
    if (table->digest_bytes(DType::F16, 64, 128) > 0) found.push_back(table);
  return found;
}

struct Head {
  int64_t dimensions, keys, rows;
  std::vector<float> q, k, v;

  Head(int64_t head_dim, int64_t key_count, int64_t row_count, float spread, uint64_t seed)
      : dimensions(head_dim), keys(key_count), rows(row_count) {
    q = normal_rows(rows, dimensions, seed);
    k = normal_rows(keys, dimensions, seed + 1);
    v = normal_rows(keys, dimensions, seed + 2);
    for (float& x : k) x *= spread;
  }

  static Bytes halves(const std::vector<float>& x) {
    Bytes bytes(static_cast<int64_t>(x.size()) * 2);
    for (size_t i = 0; i < x.size(); ++i) {
      const uint16_t half = float_to_f16(x[i]);
      std::memcpy(bytes.data() + 2 * i, &half, 2);
    }
    return bytes;
  }

  // The keys and values as stored, and a table's digest of them.
  struct Stored {
    const Head* head;
    const KernelTable* table;
    Bytes k, v, digest;

    std::vector<float> run(const KeyRange* row_keys, int64_t r0, int64_t r1) const {
      const int64_t n = head->dimensions;
      std::vector<float> out(head->q.size(), kPoison), scratch(static_cast<size_t>(attention_scratch(head->keys)));
      table->attention({head->q.data(), n, k.data(), v.data(), DType::F16, head->keys, n,
                        1 / std::sqrt(static_cast<float>(n)), r0, r1, row_keys, scratch.data(), out.data(), n,
                        digest.size() > 0 ? digest.data() : nullptr, head->keys});
      return out;
    }
  };
  Stored stored(const KernelTable& table) const {
    Stored s{this, &table, halves(k), halves(v), Bytes(table.digest_bytes(DType::F16, keys, dimensions))};
    table.digest({s.k.data(), s.v.data(), DType::F16, keys, dimensions, 0, keys, s.digest.data()});
    return s;
  }
  std::vector<float> run(const KernelTable& table, const KeyRange* row_keys = nullptr) const {
    return stored(table).run(row_keys, 0, rows);
  }
};

// Root mean square of the difference to the oracle, over that of the oracle's results. Every table with digests must
// stay below `bound`.
void expect_error_below(double bound, const Head& head, const KeyRange* row_keys = nullptr) {
  const std::vector<float> want = head.run(*scalar_table(), row_keys);
  for (const KernelTable* table : digesting()) {
    const std::vector<float> got = head.run(*table, row_keys);
    double difference = 0, size = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
      size += std::pow(static_cast<double>(want[i]), 2);
    }
    EXPECT_LT(std::sqrt(difference / size), bound) << table->isa << " head " << head.dimensions;
  }
}

class Digest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (digesting().empty()) GTEST_SKIP() << "no table of this processor has digests";
  }
};

TEST_F(Digest, ErrorOfNormalKeysByTheSpreadOfTheScores) {
  for (const int64_t dimensions : {64, 128}) {
    expect_error_below(0.009, Head(dimensions, kDigestKeys + 76, dimensions == 64 ? 33 : 9, 0.1f, 1));
    expect_error_below(0.016, Head(dimensions, kDigestKeys, 9, 1, 4));
    expect_error_below(0.035, Head(dimensions, kDigestKeys + 1, 10, 4, 7));
  }
}

TEST_F(Digest, IsReadFromTheKeyCountOn) {
  expect_error_below(1e-5, Head(128, kDigestKeys - 1, 3, 1, 10));  // floats
  const Head head(128, kDigestKeys, 3, 1, 10);
  const std::vector<float> want = head.run(*scalar_table());
  for (const KernelTable* table : digesting()) {
    const std::vector<float> got = head.run(*table);
    double difference = 0;
    for (size_t i = 0; i < want.size(); ++i)
      difference = std::max(difference, std::fabs(static_cast<double>(got[i]) - want[i]));
    EXPECT_GT(difference, 1e-4) << table->isa << ": nothing of 8 bits is that exact";
  }
}

// Channels that stand out fifty times, in keys and in values: without the rotation the other channels would have two
// bits.
TEST_F(Digest, ChannelsThatStandOut) {
  Head head(128, kDigestKeys, 10, 1, 13);
  for (size_t i = 0; i < head.k.size(); i += 128) head.k[i + 5] = 50, head.v[i + 77] *= 50;
  // |q||k| / head_dim is 4.5 where normal keys have 1, and so is the error of a score
  expect_error_below(0.07, head);
  const std::vector<float> want = head.run(*scalar_table());
  for (const KernelTable* table : digesting()) {
    // In the quiet channels alone: the values' error is the row's, their own size is an 8th of its.
    const std::vector<float> got = head.run(*table);
    double difference = 0;
    for (size_t i = 0; i < want.size(); ++i)
      if (i % 128 != 77) difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
    EXPECT_LT(std::sqrt(difference / static_cast<double>(want.size())), 0.02) << table->isa;
  }
}

TEST_F(Digest, EqualKeysGiveTheMeanOfTheValues) {
  Head head(128, kDigestKeys + 13, 4, 1, 16);
  for (size_t i = 0; i < head.k.size(); ++i) head.k[i] = head.k[i % 128];
  expect_error_below(0.01, head);
  for (size_t i = 0; i < head.v.size(); ++i) head.v[i] = head.v[i % 128];
  expect_error_below(0.006, head);  // every value the same: its own rounding alone
}

// One key takes most of the weight while its value is next to nothing: what is left decides, and must not be rounded by
// the dominating weight. And the opposite: it takes all.
TEST_F(Digest, OneDominatingKey) {
  Head head(128, kDigestKeys, 5, 0.2f, 19);
  for (int64_t r = 0; r < head.rows; ++r)
    for (int64_t i = 0; i < 128; ++i) head.q[static_cast<size_t>(r * 128 + i)] += 1;
  const auto dominate = [&](float key, float value) {
    for (size_t i = 700 * 128; i < 701 * 128; ++i) head.k[i] = key, head.v[i] *= value;
  };
  dominate(0.7f, 1e-4f);
  expect_error_below(0.02, head);
  dominate(4, 1e4f);
  expect_error_below(0.01, head);
  std::ranges::fill(head.v, 0.0f);
  for (const KernelTable* table : digesting())
    for (const float x : head.run(*table)) ASSERT_EQ(x, 0) << table->isa;
}

// One number of each query, key and value is not zero, so that all of the turned ones are at an end of their range: 127
// times 127, and 127 times the largest weight, in every product. Only the weights' rounding is left as an error.
TEST_F(Digest, BytesAtTheEndsOfTheirRange) {
  for (const int64_t dimensions : {64, 128}) {
    Head head(dimensions, kDigestKeys + 64, 10, 0, 40);
    std::ranges::fill(head.q, 0.0f);
    std::ranges::fill(head.v, 0.0f);
    for (int64_t r = 0; r < head.rows; ++r)
      head.q[static_cast<size_t>(r * dimensions + r % 5)] = r % 2 == 0 ? 4.0f : -4.0f;
    for (int64_t p = 0; p < head.keys; ++p) {
      head.k[static_cast<size_t>(p * dimensions + p % 5)] = p / 64 % 2 == 0 ? 3.0f : -3.0f;
      head.v[static_cast<size_t>(p * dimensions + p / 128 % 3)] = p % 7 == 0 ? -2.0f : 1.0f;
    }
    expect_error_below(0.015, head);  // values of both signs, so the mean is small
  }
}

TEST_F(Digest, LargeScoreRanges) {  // hundreds of units between scores: one key in front wins, none overflows
  Head head(128, kDigestKeys, 9, 1, 22);
  for (float& x : head.q) x *= 300;
  const std::vector<float> want = head.run(*scalar_table());
  for (const KernelTable* table : digesting()) {
    const std::vector<float> got = head.run(*table);
    int equal = 0;
    for (int64_t r = 0; r < head.rows; ++r) {
      double difference = 0;
      for (size_t i = 0; i < 128; ++i) {
        ASSERT_LT(std::fabs(got[static_cast<size_t>(r) * 128 + i]), 3.5) << "a mean of values";
        difference += std::fabs(got[static_cast<size_t>(r) * 128 + i] - want[static_cast<size_t>(r) * 128 + i]);
      }
      equal += difference < 128 * 0.05;
    }
    EXPECT_GE(equal, 8) << "rows that found the same key as the oracle; a tie within the error may go either way";
  }
}

// Rows of both kinds in one call, alone and together, with damage where they do not look.
TEST_F(Digest, ARowDependsOnNothingButTheKeysThatItSees) {
  std::vector<KeyRange> row_keys;
  for (int64_t r = 0; r < 37; ++r) row_keys.push_back(prefix(kDigestKeys - 20 + (r * 37) % 120));
  expect_error_below(0.016, Head(64, kDigestKeys + 150, 37, 1, 25), row_keys.data());
  for (const KernelTable* table : digesting())
    for (const int64_t dimensions : {64, 128}) {
      Head head(dimensions, kDigestKeys + 150, 37, 1, 25);
      const std::vector<float> batch = head.run(*table, row_keys.data());
      for (int64_t i = (kDigestKeys + 100) * dimensions; i < head.keys * dimensions; ++i)
        head.k[static_cast<size_t>(i)] = head.v[static_cast<size_t>(i)] = std::numeric_limits<float>::quiet_NaN();
      const Head::Stored damaged = head.stored(*table);
      for (int64_t r = 0; r < head.rows; r += 5) {
        const std::vector<float> alone = damaged.run(row_keys.data(), r, r + 1);
        for (int64_t i = r * dimensions; i < (r + 1) * dimensions; ++i)
          ASSERT_EQ(alone[static_cast<size_t>(i)], batch[static_cast<size_t>(i)]) << table->isa << " row " << r;
      }
    }
}

// Windows of many keys, beside windows of few and rows that see all.
TEST_F(Digest, RangesBeginAnywhere) {
  constexpr int32_t kKeys = kDigestKeys + 300;
  std::vector<KeyRange> ranges;
  for (const int32_t first : {0, 1, 63, 64, 65, 100, 127, 128, 191, 255, 300})
    for (const int32_t short_of : {0, 1, 44, 64, 300}) {
      if (first + kDigestKeys + short_of <= kKeys) ranges.push_back({first, kKeys - short_of});
      ranges.push_back({first, first + 40});
    }
  expect_error_below(0.016, Head(64, kKeys, std::ssize(ranges), 1, 26), ranges.data());
  for (const KernelTable* table : digesting()) {
    const Head head(64, kKeys, std::ssize(ranges), 1, 26);
    const std::vector<float> batch = head.run(*table, ranges.data());
    for (int64_t r = 0; r < head.rows; r += 3) {
      const KeyRange seen = ranges[static_cast<size_t>(r)];
      Head damaged = head;
      for (int64_t i = 0; i < kKeys * 64; ++i)
        if (i / 64 < seen.first || i / 64 >= seen.last)
          damaged.k[static_cast<size_t>(i)] = damaged.v[static_cast<size_t>(i)] =
              std::numeric_limits<float>::quiet_NaN();
      const std::vector<float> alone = damaged.stored(*table).run(ranges.data(), r, r + 1);
      for (int64_t i = r * 64; i < (r + 1) * 64; ++i)
        ASSERT_EQ(alone[static_cast<size_t>(i)], batch[static_cast<size_t>(i)])
            << table->isa << " row " << r << " [" << seen.first << ", " << seen.last << ")";
    }
  }
}

TEST_F(Digest, DamageThatARowSeesIsNotHidden) {
  for (const KernelTable* table : digesting())
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
      for (const int which : {0, 1, 2}) {
        Head head(128, kDigestKeys + 10, 3, 1, 28);
        const std::vector<KeyRange> row_keys = {prefix(kDigestKeys + 10), prefix(kDigestKeys + 2),
                                                prefix(kDigestKeys + 10)};
        auto& damaged = which == 0 ? head.k : which == 1 ? head.v : head.q;
        damaged[which == 2 ? 2 * 128 + 3 : static_cast<size_t>(kDigestKeys + 5) * 128 + 3] = bad;
        const std::vector<float> got = head.run(*table, row_keys.data());
        EXPECT_EQ(std::isnan(got[0]), which != 2) << which;
        EXPECT_FALSE(std::isnan(got[128])) << which;
        EXPECT_TRUE(std::isnan(got[256])) << which;
      }
}

TEST_F(Digest, RenewedInPartsIsTheSameAsWhole) {
  for (const KernelTable* table : digesting()) {
    const int64_t keys = 203;
    const Head before(64, keys, 1, 1, 31), after(64, keys, 1, 2, 34);
    Bytes k = Head::halves(before.k), v = Head::halves(before.v);
    const Bytes new_k = Head::halves(after.k), new_v = Head::halves(after.v);
    Bytes part(table->digest_bytes(DType::F16, keys, 64)), whole(part.size());
    const auto make = [&](int64_t p0, int64_t p1, const Bytes& digest) {
      table->digest({k.data(), v.data(), DType::F16, keys, 64, p0, p1, digest.data()});
    };
    make(0, keys, part);
    for (const auto& [p0, p1] : {std::pair<int64_t, int64_t>{3, 4}, {50, 71}, {202, 203}}) {
      std::memcpy(k.data() + p0 * 128, new_k.data() + p0 * 128, static_cast<size_t>((p1 - p0) * 128));
      std::memcpy(v.data() + p0 * 128, new_v.data() + p0 * 128, static_cast<size_t>((p1 - p0) * 128));
      make(p0, p1, part);
    }
    make(0, keys, whole);
    EXPECT_EQ(std::memcmp(part.data(), whole.data(), static_cast<size_t>(part.size())), 0) << table->isa;
  }
}

}  // namespace
}  // namespace llada::kernels
