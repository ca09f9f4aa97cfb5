// What the x86 tables promise beyond the contract that all tables share: exact integer products of 256-bit
// vectors, activations equal to the oracle's, the accuracy of their exponential, rows untouched by what only
// their neighbours see.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

#include "kernel_test_data.h"
#include "kernels/avx2.h"
#include "kernels/avx512vnni.h"

namespace llada::kernels {
namespace {

using namespace testing;

std::vector<const KernelTable*> tables(std::initializer_list<std::string_view> names) {
  std::vector<const KernelTable*> found;
  for (const KernelTable* table : available())
    for (const std::string_view name : names)
      if (table->isa == name) found.push_back(table);
  return found;
}
std::vector<const KernelTable*> int8_tables() { return tables({"avx2", "avxvnni"}); }
std::vector<const KernelTable*> x86_tables() { return tables({"avx2", "avxvnni", "avx512vnni", "amx"}); }

// Their activations hold the oracle's (rows x k quants, then, 64-byte aligned, rows x k / 32 scales), group by group.
TEST(X86, QuantizedActivationsAreTheOracles) {
  if (int8_tables().empty()) GTEST_SKIP() << "this processor has no AVX2";
  for (const KernelTable* table : int8_tables())
    for (const int64_t k : {32, 64, 96, 768, 4096}) {
      const int64_t rows = 5;
      std::vector<float> x = normal_rows(rows, k, 101);
      for (int64_t i = 0; i < k; ++i) {
        x[static_cast<size_t>(i)] *= std::exp2(static_cast<float>(i % 97) - 60);  // many magnitudes in one group
        x[static_cast<size_t>(k + i)] = 0.5f + static_cast<float>(i % 32 - 16);   // halves: ties
        x[static_cast<size_t>(2 * k + i)] *= 1e-38f;                              // too small to count
      }
      for (int64_t i = 0; i < k; i += 32) x[static_cast<size_t>(k + i)] = 127;
      Bytes want(scalar_table()->activation_bytes(rows, k)), got(table->activation_bytes(rows, k));
      scalar_table()->quantize_rows(x.data(), rows, k, 0, rows, kAllTypes, want.data());
      table->quantize_rows(x.data(), rows, k, 0, rows, kAllTypes, got.data());
      const std::byte* scales = want.data() + (rows * k + 63) / 64 * 64;
      for (int64_t g = 0; g < rows * k / 32; ++g) {
        const std::byte* group = got.data() + g * avx2::kActivationGroupBytes;
        ASSERT_EQ(std::memcmp(want.data() + g * 32, group, 32), 0) << table->isa << " k=" << k << " group " << g;
        ASSERT_EQ(std::memcmp(scales + g * 4, group + avx2::kActivationScaleAt, 4), 0) << table->isa << " group " << g;
      }
    }
}

// Where the quants and scales of a group lie in the AVX-512 layout, and what they are.
struct GroupPlace {
  std::array<int8_t, 32> quants;
  float scale, share;  // share: of the largest of the block, from the ratio
};
GroupPlace group_of(const Bytes& activations, int64_t rows, int64_t k, int64_t row, int64_t group) {
  using namespace avx512vnni;
  const ActivationLayout layout(rows, k);
  const int64_t first = row / kRowTile * kRowTile, height = std::min(kRowTile, rows - first), in_tile = row - first;
  const int64_t chunk = first * chunks_of(k) + group / 2 * height;
  GroupPlace g{};
  for (int64_t i = 0; i < 32; ++i)
    g.quants[static_cast<size_t>(i)] = static_cast<int8_t>(
        activations.data()[chunk * ActivationLayout::kMain + i / 4 * height * 8 + in_tile * 8 + group % 2 * 4 + i % 4]);
  std::memcpy(&g.scale, activations.data() + layout.scales + ((chunk + in_tile) * 2 + group % 2) * 4, 4);
  int16_t ratio;
  std::memcpy(&ratio, activations.data() + layout.ratios + ((chunk + in_tile) * 2 + group % 2) * 2, 2);
  g.share = static_cast<float>(ratio) / -32768;
  return g;
}

TEST(X86, Avx512ActivationsAreTheOracles) {
  if (tables({"avx512vnni"}).empty()) GTEST_SKIP() << "this processor has no AVX-512 VNNI";
  const KernelTable& table = *tables({"avx512vnni"}).front();
  for (const int64_t k : {32, 64, 96, 288, 768, 4096})
    for (const int64_t rows : {1, 7, 8, 13}) {
      std::vector<float> x = normal_rows(rows, k, 109);
      for (int64_t i = 0; i < k; ++i) {
        x[static_cast<size_t>(i)] *= std::exp2(static_cast<float>(i % 97) - 60);
        if (rows > 2)
          x[static_cast<size_t>(k + i)] = i % 32 == 0 ? 127.0f : 0.5f + static_cast<float>(i % 32 - 16);  // ties
        if (rows > 2 && i / 32 % 3 > 0) x[static_cast<size_t>(2 * k + i)] *= 1e-38f;  // too small to count
      }
      Bytes want(scalar_table()->activation_bytes(rows, k)), got(table.activation_bytes(rows, k));
      scalar_table()->quantize_rows(x.data(), rows, k, 0, rows, kAllTypes, want.data());
      table.quantize_rows(x.data(), rows, k, 0, rows, kAllTypes, got.data());
      const auto* scales = reinterpret_cast<const float*>(want.data() + (rows * k + 63) / 64 * 64);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t g = 0; g < k / 32; ++g) {
          const GroupPlace place = group_of(got, rows, k, r, g);
          ASSERT_EQ(std::memcmp(place.quants.data(), want.data() + r * k + g * 32, 32), 0) << "k=" << k << " row " << r;
          const float* row_scales = scales + r * (k / 32);
          ASSERT_EQ(place.scale, row_scales[g]) << "k=" << k << " row " << r << " group " << g;
          const float most = *std::max_element(row_scales + g / 8 * 8, row_scales + std::min(g / 8 * 8 + 8, k / 32));
          ASSERT_NEAR(place.share, most > 0 ? row_scales[g] / most : 0, 0x1.01p-16) << "k=" << k << " row " << r;
        }
    }
}

// One value that is not finite anywhere in a row: each of its products is NaN, and the other rows' bits are as without
// it, computed from the rows as they are and from picked ones.
TEST(X86, ValuesThatAreNotFiniteMakeTheirRowUndefined) {
  if (tables({"avx512vnni"}).empty()) GTEST_SKIP() << "this processor has no AVX-512 VNNI";
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
  Random random(110);
  for (const KernelTable* table : tables({"avx512vnni", "amx"}))
    for (int i = 0; i < kDTypeCount; ++i) {
      const auto type = static_cast<DType>(i);
      if (!table->integer_path(type)) continue;
      for (const Fill fill : {Fill::random, Fill::wide})
        for (const int64_t rows : {1, 5, 8, 11}) {
          const Problem p{type, 19, traits(type).elements > 32 ? 768 : 352, rows};
          const Bytes stored = make_weights(type, p.n, p.k, fill, 111);
          const Weights weights(*table, type, stored, p.n, p.k);
          std::vector<float> x = normal_rows(rows, p.k, 112);
          for (int64_t j = 0; j < p.k; ++j) x[static_cast<size_t>(j)] = 0;  // a row that is zero but for it, too
          const std::vector<float> clean = multiply(*table, p, weights.data(), x);
          for (const float value : bad) {
            const int64_t row = random.below(rows);
            for (const int64_t poisoned : {row, int64_t{0}}) {
              std::vector<float> dirty = x;
              dirty[static_cast<size_t>(poisoned * p.k + random.below(p.k))] = value;
              const std::vector<float> got = multiply(*table, p, weights.data(), dirty);
              Bytes all(table->activation_bytes(rows, p.k)), picked(table->activation_bytes(2, p.k));
              table->quantize_rows(dirty.data(), rows, p.k, 0, rows, type_bit(type), all.data());
              const int32_t picks[] = {static_cast<int32_t>(rows - 1), static_cast<int32_t>(poisoned)};
              table->pick_rows({dirty.data(), all.data(), rows, p.k, picks, 2, type_bit(type), picked.data()});
              std::vector<float> y(static_cast<size_t>(2 * p.n));
              table->matmul({type, p.n, p.k, weights.data(), dirty.data(), picked.data(), 2, 0, p.n, y.data(), p.n});
              for (int64_t c = 0; c < p.n; ++c)
                EXPECT_TRUE(std::isnan(y[static_cast<size_t>(p.n + c)])) << name_of(*table, p);
              for (int64_t r = 0; r < rows; ++r)
                for (int64_t c = 0; c < p.n; ++c) {
                  const auto at = static_cast<size_t>(r * p.n + c);
                  if (r == poisoned)
                    ASSERT_TRUE(std::isnan(got[at])) << name_of(*table, p) << " " << value << " gave " << got[at];
                  else
                    ASSERT_EQ(got[at], clean[at]) << name_of(*table, p) << " row " << r;
                }
            }
          }
        }
    }
}

// Scales of one and sums below 2^24: every float operation is exact, so the product must be the integer
// itself. Quants of all values, -128 of Q8_0 included, meet activations at both ends of their range.
TEST(X86, IntegerProductsAreExact) {
  if (int8_tables().empty()) GTEST_SKIP() << "this processor has no AVX2";
  Random random(102);
  for (const KernelTable* table : int8_tables())
    for (const DType type : {DType::Q4_0, DType::IQ4_NL, DType::Q8_0})
      for (const int pattern : {0, 1, 2, 3, 4}) {
        const Problem p{type, 48, 512, 11};
        Bytes stored(p.n * row_bytes(type, p.k));
        const uint16_t one = float_to_f16(1.0f);
        for (int64_t i = 0; i < stored.size(); ++i) {
          const bool top = pattern == 1 || (pattern == 2 && i % 2 == 0);
          const auto byte = pattern == 4          ? static_cast<uint8_t>(random.bits())
                            : type == DType::Q8_0 ? static_cast<uint8_t>(top ? 0x7f : 0x80)
                                                  : static_cast<uint8_t>(top ? 0xff : 0x00);
          stored.data()[i] = std::byte{byte};
        }
        for (int64_t i = 0; i < stored.size(); i += traits(type).bytes) std::memcpy(stored.data() + i, &one, 2);
        std::vector<float> x(static_cast<size_t>(p.rows * p.k));
        for (size_t i = 0; i < x.size(); ++i)
          x[i] = pattern == 3 ? (i % 2 == 0 ? 127.0f : -127.0f) : (random.below(4) == 0 ? -127.0f : 127.0f);
        const std::vector<float> want = multiply(*scalar_table(), p, stored.data(), x);
        const Weights weights(*table, type, stored, p.n, p.k);
        EXPECT_EQ(multiply(*table, p, weights.data(), x), want) << name_of(*table, p) << " pattern " << pattern;
      }
}

// A second logit x below the largest: the sum is 1 + exp(x), in double, so exp(x) can be read back.
TEST(X86, ExponentialIsAccurateAndTheLargestTermIsExactlyOne) {
  if (x86_tables().empty()) GTEST_SKIP() << "this processor has no AVX2";
  for (const KernelTable* table : x86_tables()) {
    double worst = 0;
    for (int i = 0; i <= 200000; ++i) {
      const float logits[2] = {0, -static_cast<float>(i) * 20 / 200000};
      const double want = std::exp(static_cast<double>(logits[1]));
      worst = std::max(worst, std::fabs(table->softmax_stats(logits, 2).sum - 1 - want) / want);
    }
    EXPECT_LT(worst, 1.5e-7) << table->isa;  // below 1.3 units in the last place of any float
    const float certain[3] = {40, 40 - 27.6f, -1000};
    EXPECT_NEAR(table->softmax_stats(certain, 3).sum - 1, std::exp(static_cast<double>(certain[1]) - 40), 1e-15)
        << table->isa;
  }
}

TEST(X86, WhatOnlyNeighboursSeeDoesNotReachARow) {
  if (x86_tables().empty()) GTEST_SKIP() << "this processor has no AVX2";
  const int64_t keys = 40, rows = 8;
  for (const KernelTable* table : x86_tables())
    for (const int64_t head_dim : {64, 20}) {
      std::vector<float> q = normal_rows(rows, head_dim, 103), k = normal_rows(keys, head_dim, 104),
                         v = normal_rows(keys, head_dim, 105);
      std::vector<float> scratch(static_cast<size_t>(attention_scratch(keys)));
      std::vector<KeyRange> row_keys;
      for (const int64_t n : {40, 9, 40, 31, 9, 40, 1, 8}) row_keys.push_back(prefix(n));
      const auto run = [&] {
        std::vector<float> out(q.size());
        table->attention({q.data(), head_dim, k.data(), v.data(), DType::F32, keys, head_dim, 0.125f, 0, rows,
                          row_keys.data(), scratch.data(), out.data(), head_dim});
        return out;
      };
      const std::vector<float> clean = run();
      for (int64_t i = 31 * head_dim; i < keys * head_dim; ++i)
        k[static_cast<size_t>(i)] = v[static_cast<size_t>(i)] = std::numeric_limits<float>::quiet_NaN();
      const std::vector<float> dirty = run();
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < head_dim; ++i) {
          const auto at = static_cast<size_t>(r * head_dim + i);
          if (row_keys[static_cast<size_t>(r)].last == 40) {
            EXPECT_TRUE(std::isnan(dirty[at])) << table->isa << " row " << r;
          } else {
            ASSERT_EQ(dirty[at], clean[at]) << table->isa << " row " << r;
          }
        }
    }
}

// Sums of a head wider than one transposed piece go through memory.
TEST(X86, WideHeads) {
  if (x86_tables().empty()) GTEST_SKIP() << "this processor has no AVX2";
  const int64_t keys = 37, rows = 5, head_dim = 300;
  const std::vector<float> q = normal_rows(rows, head_dim, 106), k = normal_rows(keys, head_dim, 107),
                           v = normal_rows(keys, head_dim, 108);
  std::vector<float> scratch(static_cast<size_t>(attention_scratch(keys)));
  const auto run = [&](const KernelTable& table) {
    std::vector<float> out(q.size());
    table.attention({q.data(), head_dim, k.data(), v.data(), DType::F32, keys, head_dim, 0.05f, 0, rows, nullptr,
                     scratch.data(), out.data(), head_dim});
    return out;
  };
  const std::vector<float> want = run(*scalar_table());
  for (const KernelTable* table : x86_tables()) {
    const std::vector<float> got = run(*table);
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-6) << table->isa;
  }
}

}  // namespace
}  // namespace llada::kernels
