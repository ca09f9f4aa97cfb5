// Matrix products of every table against the oracle, and the contract that a result element never depends on
// the batch, the column range or the thread that computed it.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "kernel_test_data.h"
#include "tensor/computed.h"

namespace llada::kernels {
namespace {

using namespace testing;

// What a product may lose relative to sum |w||x|. Float path: one rounding per step of the longest sum (k).
// Integer path: int8 products are exact; each group's sum is scaled and added with at most four roundings,
// and a packed form may keep a group's scale to one part in 2000 (half a unit in 11 bits). What a type loses by being
// computed as another one is stated by value, of which the smaller ones of a group lose as much as its largest.
double tolerance(DType type, int64_t k) {
  const double roundings = static_cast<double>(traits(type).quantized ? 4 * (k / 16) : k) + 16;
  return roundings * kEpsilon + (traits(type).quantized ? 5e-4 + 4 * computed_error(type) : 0);
}

// The oracle's product once, and every table's beside it.
void expect_close(const Problem& p, const Bytes& stored, const std::vector<float>& x) {
  const std::vector<float> want = multiply(*scalar_table(), p, stored.data(), x);
  const std::vector<double> scale = magnitudes(p, stored, x);
  for (const KernelTable* table : available()) {
    if (table == scalar_table()) continue;
    const Weights weights(*table, p.type, stored, p.n, p.k);
    const std::vector<float> got = multiply(*table, p, weights.data(), x);
    for (size_t i = 0; i < want.size(); ++i) {
      const double limit = tolerance(p.type, p.k) * scale[i] + std::numeric_limits<float>::min();
      ASSERT_NEAR(got[i], want[i], limit) << name_of(*table, p) << " row " << i / static_cast<size_t>(p.n) << " column "
                                          << i % static_cast<size_t>(p.n);
    }
  }
}

std::vector<int64_t> widths(DType type) {
  if (traits(type).elements > 32) return {256, 768, 4096};
  return {32, 64, 96, 256, 768, 4096};
}

TEST(Matmul, RowCounts) {
  for (const DType type : all_types())
    for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 32, 33, 64, 127, 128}) {
      const Problem p{type, 39, 256, rows};  // one column of padding: NEON packs all types
      expect_close(p, make_weights(type, p.n, p.k, Fill::random, 1), exact_rows(rows, p.k, 2));
    }
}

TEST(Matmul, Widths) {
  for (const DType type : all_types())
    for (const int64_t k : widths(type))
      for (const int64_t rows : {1, 5, 18}) {
        const Problem p{type, 23, k, rows};
        expect_close(p, make_weights(type, p.n, k, Fill::random, 3), exact_rows(rows, k, 4));
      }
}

TEST(Matmul, ColumnCounts) {
  for (const DType type : all_types())
    for (const int64_t n : {1, 2, 7, 15, 16, 17, 31, 33, 48, 63, 65, 130})
      for (const int64_t rows : {1, 11}) {
        const Problem p{type, n, 256, rows};
        expect_close(p, make_weights(type, n, p.k, Fill::random, 5), exact_rows(rows, p.k, 6));
      }
}

// Saturation and overflow: every quant and every activation at the ends of its range, in all sign patterns, and
// magnitudes half of it.
TEST(Matmul, Extremes) {
  for (const DType type : all_types())
    for (const Fill fill : {Fill::low, Fill::high, Fill::alternate})
      for (const int pattern : {0, 1, 2, 3, 4}) {
        const Problem p{type, 19, 4096, 9};
        std::vector<float> x(static_cast<size_t>(p.rows * p.k));
        for (size_t i = 0; i < x.size(); ++i) {
          const bool negative = pattern == 1 || (pattern == 2 && i % 2 == 1) || (pattern == 3 && i % 2 == 0);
          x[i] = negative ? -127.0f : 127.0f;
          if (pattern == 4 && i % 16 > 0) x[i] = i % 16 > 1 ? 60.0f : 56.0f;
        }
        expect_close(p, make_weights(type, p.n, p.k, fill, 7), x);
      }
}

// Rows of the largest activations: all of one sign, signs that alternate by value and by group, and random ones.
std::vector<float> mixed_signs(int64_t rows, int64_t k) {
  Random random(34);
  std::vector<float> x(static_cast<size_t>(rows * k));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < k; ++i) {
      const bool negative = r % 5 == 1 || (r % 5 == 2 && i % 2 == 1) || (r % 5 == 3 && i / 32 % 2 == 1) ||
                            (r % 5 == 4 && random.below(2) == 1);
      x[static_cast<size_t>(r * k + i)] = negative ? -127.0f : 127.0f;
    }
  return x;
}

TEST(Matmul, ScalesOverFourDecadesZeroAndNegative) {
  for (const DType type : all_types())
    for (const int64_t rows : {1, 4, 33}) {
      const Problem p{type, 50, 1024, rows};
      expect_close(p, make_weights(type, p.n, p.k, Fill::wide, 8), exact_rows(rows, p.k, 9));
    }
}

// w = d q + m with offsets that have nothing to do with the scales, in groups of one size, or one or two of a block
// many times the others. What a packed form makes of d and m must fit its integers, and moves the values of a group by
// 2^-11 of the largest at most. Activations are such that nothing else is rounded but floats.
TEST(Matmul, OffsetsAndScalesOfAnyRatio) {
  for (const float ratio : {-100.0f, -15.0f, -8.0f, 0.0f, 1.0f, 40.0f, 1000.0f})  // m / d
    for (const float outlier : {1.0f, 7.0f, 14.0f, 40.0f, 1000.0f})
      for (const Fill fill : {Fill::random, Fill::low, Fill::high}) {
        const Problem p{DType::Q4_1, 21, 512, 9};
        const Bytes stored = make_weights(p.type, p.n, p.k, fill, 33);
        auto* groups = reinterpret_cast<GroupQ4_1*>(stored.data());
        for (int64_t g = 0; g < p.n * p.k / 32; ++g) {
          const int64_t column = g * 32 / p.k, large = column % 8;
          const bool is_large = g % 8 == large || (column % 3 == 0 && g % 8 == (large + 3) % 8);
          const float d = (column % 2 == 0 ? 1 : -1) * (is_large ? outlier : 1.0f) / 128;
          groups[g].d = float_to_f16(d), groups[g].m = float_to_f16(ratio * d);
        }
        const std::vector<float> x = mixed_signs(p.rows, p.k), want = multiply(*scalar_table(), p, stored.data(), x);
        for (const KernelTable* table : available()) {
          const std::vector<float> got = multiply(*table, p, Weights(*table, p.type, stored, p.n, p.k).data(), x);
          for (size_t i = 0; i < got.size(); ++i) {
            double limit = 0;
            for (int64_t g = 0; g < p.k / 32; ++g) {
              const GroupQ4_1& group = groups[static_cast<int64_t>(i) % p.n * (p.k / 32) + g];
              const float d = f16_to_float(group.d), m = f16_to_float(group.m);
              limit += 32 * 127 * (0x1p-11 + 64 * kEpsilon) * std::max(std::fabs(m), std::fabs(15 * d + m));
            }
            ASSERT_NEAR(got[i], want[i], limit) << name_of(*table, p) << " m / d " << ratio << ", outlier " << outlier;
          }
        }
      }
}

// Only one group of each column meets non-zero inputs, so the others cannot hide a wrong scale.
TEST(Matmul, EachGroupAlone) {
  for (const DType type : all_types()) {
    const Problem p{type, 40, 512, 16};
    std::vector<float> x = exact_rows(p.rows, p.k, 10);
    for (int64_t r = 0; r < p.rows; ++r)
      for (int64_t i = 0; i < p.k; ++i)
        if (i / 32 != r) x[static_cast<size_t>(r * p.k + i)] = 0;
    for (const Fill fill : {Fill::random, Fill::wide}) expect_close(p, make_weights(type, p.n, p.k, fill, 11), x);
  }
}

TEST(Matmul, ZeroRowsAndSmallAndLargeInputs) {
  for (const DType type : all_types()) {
    const Problem p{type, 18, 256, 7};
    std::vector<float> x = exact_rows(p.rows, p.k, 12);
    const float factors[7] = {0.0f, 1e-20f, 1e20f, 1e-30f, 1.0f, 1e30f, 0.0f};
    for (int64_t r = 0; r < p.rows; ++r) {
      const float factor = factors[r] == 0 ? 0 : std::exp2(std::round(std::log2(factors[r])));
      for (int64_t i = 0; i < p.k; ++i) x[static_cast<size_t>(r * p.k + i)] *= factor;
    }
    expect_close(p, make_weights(type, p.n, p.k, Fill::random, 13), x);
  }
}

TEST(Matmul, DenormalInputsGiveFiniteResults) {
  for (const KernelTable* table : available())
    for (const DType type : all_types()) {
      const Problem p{type, 18, 256, 3};
      std::vector<float> x(static_cast<size_t>(p.rows * p.k));
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 5) * std::numeric_limits<float>::denorm_min();
      const Bytes stored = make_weights(type, p.n, p.k, Fill::random, 14);
      const Weights weights(*table, type, stored, p.n, p.k);
      for (const float value : multiply(*table, p, weights.data(), x))
        ASSERT_LE(std::fabs(value), 1e-37f) << name_of(*table, p);
    }
}

// Any real input: the int8 rounding of the activations is the whole error. Half a step of the largest scale
// that a quantizer may use (max|x| over 256 values / 127) for each value.
TEST(Matmul, RandomInputsWithinActivationRounding) {
  for (const KernelTable* table : available())
    for (const DType type : all_types()) {
      const Problem p{type, 40, 1024, 13};
      const std::vector<float> x = normal_rows(p.rows, p.k, 15);
      const Bytes stored = make_weights(type, p.n, p.k, Fill::random, 16);
      const Weights weights(*table, type, stored, p.n, p.k);
      const std::vector<float> got = multiply(*table, p, weights.data(), x);
      std::vector<float> w(static_cast<size_t>(p.k));
      double error2 = 0, norm2 = 0;
      for (int64_t c = 0; c < p.n; ++c) {
        dequantize_row(type, stored.data() + c * row_bytes(type, p.k), w.data(), p.k);
        for (int64_t r = 0; r < p.rows; ++r) {
          double want = 0, limit = 0;
          for (int64_t b = 0; b < p.k; b += 256) {
            double largest = 0, weight = 0;
            for (int64_t i = b; i < b + 256; ++i) {
              const double v = x[static_cast<size_t>(r * p.k + i)], u = w[static_cast<size_t>(i)];
              want += v * u;
              limit += std::fabs(v * u) * tolerance(type, p.k);
              largest = std::max(largest, std::fabs(v));
              weight += std::fabs(u);
            }
            if (traits(type).quantized) limit += weight * largest / 127 * 0.5001;
          }
          const double difference = got[static_cast<size_t>(r * p.n + c)] - want;
          ASSERT_LE(std::fabs(difference), limit) << name_of(*table, p);
          error2 += difference * difference;
          norm2 += want * want;
        }
      }
      // Rounding is unbiased: over the matrix the error is far below the bound of one element.
      EXPECT_LE(std::sqrt(error2 / norm2), traits(type).quantized ? 0.015 : 1e-5) << name_of(*table, p);
    }
}

TEST(Matmul, RowAloneEqualsRowInBatchBitForBit) {
  for (const KernelTable* table : available())
    for (const DType type : all_types())
      for (const int64_t rows : {2, 5, 8, 13, 33}) {
        const Problem p{type, 53, 768, rows};
        const Bytes stored = make_weights(type, p.n, p.k, Fill::random, 17);
        const Weights weights(*table, type, stored, p.n, p.k);
        const std::vector<float> x = normal_rows(rows, p.k, 18);
        const std::vector<float> batch = multiply(*table, p, weights.data(), x);
        for (int64_t r = 0; r < rows; ++r) {
          const std::vector<float> row(x.begin() + r * p.k, x.begin() + (r + 1) * p.k);
          const std::vector<float> alone = multiply(*table, {type, p.n, p.k, 1}, weights.data(), row);
          ASSERT_EQ(std::memcmp(alone.data(), batch.data() + r * p.n, alone.size() * 4), 0)
              << name_of(*table, p) << " row " << r;
        }
      }
}

// More rows than a kernel takes at once, and rows longer than it takes at once for so many.
TEST(Matmul, ManyLongRowsEqualTheSameRowsAlone) {
  for (const KernelTable* table : available())
    for (const DType type : {DType::Q4_0, DType::Q4_1, DType::Q8_0, DType::Q8_M, DType::Q4_K, DType::Q6_K}) {
      if (table == scalar_table()) continue;  // nothing is shared between its rows, and it is slow
      const Problem p{type, 17, 7424, 137};
      const Bytes stored = make_weights(type, p.n, p.k, Fill::random, 27);
      const Weights weights(*table, type, stored, p.n, p.k);
      const std::vector<float> x = normal_rows(p.rows, p.k, 28);
      const std::vector<float> batch = multiply(*table, p, weights.data(), x);
      for (const int64_t r : {int64_t{0}, int64_t{71}, int64_t{72}, p.rows - 1}) {
        const std::vector<float> row(x.begin() + r * p.k, x.begin() + (r + 1) * p.k);
        const std::vector<float> alone = multiply(*table, {type, p.n, p.k, 1}, weights.data(), row);
        ASSERT_EQ(std::memcmp(alone.data(), batch.data() + r * p.n, alone.size() * 4), 0)
            << name_of(*table, p) << " row " << r;
      }
    }
}

// Rows as different as a kernel may treat them: every quant at its extreme, one outlier per group of 32, one per 256,
// nothing at all, one sign alone, usual ones. What neighbours need must not show in a row.
std::vector<float> mixed_rows(int64_t rows, int64_t k, uint64_t seed) {
  Random random(seed);
  std::vector<float> x(static_cast<size_t>(rows * k));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < k; ++i) {
      const float sign = random.below(2) == 0 ? 1.0f : -1.0f, small = static_cast<float>(random.below(3) - 1);
      float value = random.normal();
      if (r % 6 == 1) value = 127 * sign;
      if (r % 6 == 2) value = i % 32 == r % 32 ? 127 * sign : small;
      if (r % 6 == 3) value = i % 256 == r % 256 ? 127 * sign : small;
      if (r % 6 == 4) value = i < k / 2 ? 0 : value;
      if (r % 6 == 5) value = i / 256 == 1 ? 127 - small : value;
      x[static_cast<size_t>(r * k + i)] = value;
    }
  return x;
}

TEST(Matmul, UnlikeRowsInABatchEqualTheSameRowsAlone) {
  for (const KernelTable* table : available())
    for (const DType type : all_types())
      for (const Fill fill : {Fill::random, Fill::high, Fill::wide}) {
        const Problem p{type, 39, 768, 13};
        const Bytes stored = make_weights(type, p.n, p.k, fill, 23);
        const Weights weights(*table, type, stored, p.n, p.k);
        const std::vector<float> x = mixed_rows(p.rows, p.k, 24);
        const std::vector<float> batch = multiply(*table, p, weights.data(), x);
        for (int64_t r = 0; r < p.rows; ++r) {
          const std::vector<float> row(x.begin() + r * p.k, x.begin() + (r + 1) * p.k);
          const std::vector<float> alone = multiply(*table, {type, p.n, p.k, 1}, weights.data(), row);
          ASSERT_EQ(std::memcmp(alone.data(), batch.data() + r * p.n, alone.size() * 4), 0)
              << name_of(*table, p) << " row " << r;
        }
      }
}

// What packing and integer sums lose, against the dequantized weights: over a matrix at most a thousandth of its norm.
// The oracle has the definition's values. A type that is computed as another loses what is stated of it. Inputs that
// every quantizer keeps exactly: usual ones, all at the extremes, one outlier per group among small ones.
TEST(Matmul, WithinAThousandthOfDequantizedWeights) {
  for (const KernelTable* table : available())
    for (const DType type : all_types())
      for (const Fill fill : {Fill::random, Fill::wide})
        for (const int kind : {0, 1, 2}) {
          const Problem p{type, 48, 1024, 9};
          Random random(25);
          std::vector<float> x(static_cast<size_t>(p.rows * p.k));
          for (size_t i = 0; i < x.size(); ++i) {
            const float extreme = random.below(2) == 0 ? 127.0f : -127.0f;
            const float usual = std::round(std::clamp(30 * random.normal(), -127.0f, 127.0f));
            const auto small = static_cast<float>(random.below(3) - 1);
            x[i] = kind == 1 || i % 32 == 5 ? extreme : kind == 0 ? usual : small;
          }
          const Bytes stored = make_weights(type, p.n, p.k, fill, 26);
          const Weights weights(*table, type, stored, p.n, p.k);
          const std::vector<float> got = multiply(*table, p, weights.data(), x);
          std::vector<float> w(static_cast<size_t>(p.k));
          double error2 = 0, norm2 = 0;
          for (int64_t c = 0; c < p.n; ++c) {
            dequantize_row(type, stored.data() + c * row_bytes(type, p.k), w.data(), p.k);
            for (int64_t r = 0; r < p.rows; ++r) {
              double want = 0;
              for (int64_t i = 0; i < p.k; ++i)
                want += static_cast<double>(w[static_cast<size_t>(i)]) * x[static_cast<size_t>(r * p.k + i)];
              const double difference = got[static_cast<size_t>(r * p.n + c)] - want;
              error2 += difference * difference;
              norm2 += want * want;
            }
          }
          const double limit = table == scalar_table() ? 1e-5 : 1e-3 + computed_error(type);
          EXPECT_LE(std::sqrt(error2 / norm2), limit) << name_of(*table, p) << " inputs " << kind;
        }
}

TEST(Matmul, AnySplitOfColumnsGivesTheSameBitsAndTouchesNothingElse) {
  for (const KernelTable* table : available())
    for (const DType type : all_types())
      for (const int64_t rows : {1, 6, 17}) {
        const int64_t tile = table->column_tile(type);
        const Problem p{type, 5 * tile + (tile > 1 ? tile / 2 : 0), 512, rows};
        const Bytes stored = make_weights(type, p.n, p.k, Fill::random, 19);
        const Weights weights(*table, type, stored, p.n, p.k);
        const std::vector<float> x = normal_rows(rows, p.k, 20);
        const std::vector<float> whole = multiply(*table, p, weights.data(), x);
        const int64_t cuts[] = {0, tile, 3 * tile, p.n};
        for (int part = 0; part < 3; ++part) {
          const std::vector<float> y = multiply(*table, p, weights.data(), x, cuts[part], cuts[part + 1]);
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < p.n; ++c) {
              const auto at = static_cast<size_t>(r * p.n + c);
              const float want = c >= cuts[part] && c < cuts[part + 1] ? whole[at] : kPoison;
              ASSERT_EQ(std::memcmp(&y[at], &want, 4), 0) << name_of(*table, p) << " column " << c;
            }
        }
      }
}

TEST(Pack, AnySplitGivesTheSameBytesWithinTheLimit) {
  for (const KernelTable* table : available())
    for (const DType type : all_types()) {
      const int64_t tile = table->column_tile(type), k = 768, n = 4 * tile + tile / 2 + 1;
      const Bytes stored = make_weights(type, n, k, Fill::random, 21);
      Bytes whole(table->packed_bytes(type, n, k)), parts(table->packed_bytes(type, n, k));
      if (whole.size() == 0) continue;
      table->pack(view(type, stored, n, k), 0, n, whole.data());
      for (const auto& [from, to] : {std::pair{3 * tile, n}, {tile, 3 * tile}, {int64_t{0}, tile}})
        table->pack(view(type, stored, n, k), from, to, parts.data());
      EXPECT_EQ(std::memcmp(whole.data(), parts.data(), static_cast<size_t>(whole.size())), 0)
          << table->isa << " " << traits(type).name;
      // Whole tiles: at most a tenth more than the file, or than what the type is computed as.
      EXPECT_LE(static_cast<double>(table->packed_bytes(type, 64 * tile, 4096)),
                1.1 * static_cast<double>(64 * tile * row_bytes(computed_type(type), 4096)))
          << table->isa << " " << traits(type).name;
    }
}

// safetensors aligns nothing.
TEST(Matmul, FloatWeightsLieAtAnyAddress) {
  for (const KernelTable* table : available())
    for (const DType type : {DType::F32, DType::F16, DType::BF16}) {
      const Problem p{type, 23, 102, 5};
      const Bytes stored = make_weights(type, p.n, p.k, Fill::random, 31);
      const std::vector<float> x = normal_rows(p.rows, p.k, 32);
      const std::vector<float> want = multiply(*table, p, Weights(*table, type, stored, p.n, p.k).data(), x);
      for (const int64_t shift : {1, 2, 3}) {
        Bytes moved(stored.size() + shift), packed(table->packed_bytes(type, p.n, p.k));
        std::memcpy(moved.data() + shift, stored.data(), static_cast<size_t>(stored.size()));
        TensorView weights = view(type, stored, p.n, p.k);
        weights.data = moved.data() + shift;
        if (packed.size() > 0) table->pack(weights, 0, p.n, packed.data());
        const std::vector<float> got = multiply(*table, p, packed.size() > 0 ? packed.data() : weights.data, x);
        EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * 4), 0) << name_of(*table, p) << " + " << shift;
      }
    }
}

TEST(QuantizeRows, AnySplitOfRowsGivesTheSameBytes) {
  for (const KernelTable* table : available())
    for (const int64_t k : {32, 96, 256, 800}) {
      const int64_t rows = 19;
      const std::vector<float> x = normal_rows(rows, k, 22);
      Bytes whole(table->activation_bytes(rows, k)), parts(table->activation_bytes(rows, k));
      table->quantize_rows(x.data(), rows, k, 0, rows, kAllTypes, whole.data());
      for (const auto& [from, to] : {std::pair{11, 19}, {3, 11}, {0, 1}, {1, 3}})
        table->quantize_rows(x.data(), rows, k, from, to, kAllTypes, parts.data());
      EXPECT_EQ(std::memcmp(whole.data(), parts.data(), static_cast<size_t>(whole.size())), 0)
          << table->isa << " k=" << k;
    }
}

// Products of picked rows are the products of those rows quantized alone, bit by bit.
TEST(PickRows, GivesWhatQuantizingThePickedRowsGives) {
  const int64_t rows = 19, n = 32;
  const std::vector<std::vector<int32_t>> picks = {{18}, {0, 7, 8}, {3, 3, 16, 17, 18}, {1, 2, 4, 5, 6, 9, 10, 11, 12}};
  for (const KernelTable* table : available())
    for (const DType type : {DType::Q4_0, DType::Q4_1, DType::Q8_0, DType::Q4_K, DType::Q6_K, DType::Q5_0})
      for (const int64_t k : {256, 768}) {
        std::vector<float> x = normal_rows(rows, k, 23);
        for (int64_t i = 0; i < k; ++i) x[static_cast<size_t>(3 * k + i)] = 0.9f;  // a steep row (kernels/avx512vnni.h)
        Bytes all(table->activation_bytes(rows, k));
        std::memset(all.data(), 0x5a, static_cast<size_t>(all.size()));
        table->quantize_rows(x.data(), rows, k, 0, rows, type_bit(type), all.data());
        const Bytes stored = make_weights(type, n, k, Fill::random, 24);
        Bytes packed(table->packed_bytes(type, n, k));
        if (packed.size() > 0) table->pack(view(type, stored, n, k), 0, n, packed.data());
        for (const std::vector<int32_t>& picked : picks) {
          const auto count = static_cast<int64_t>(picked.size());
          std::vector<float> alone;
          for (const int32_t row : picked) alone.insert(alone.end(), x.begin() + row * k, x.begin() + (row + 1) * k);
          Bytes want(table->activation_bytes(count, k)), got(table->activation_bytes(count, k));
          table->quantize_rows(alone.data(), count, k, 0, count, type_bit(type), want.data());
          std::memset(got.data(), 0x5a, static_cast<size_t>(got.size()));
          table->pick_rows({x.data(), all.data(), rows, k, picked.data(), count, type_bit(type), got.data()});
          const auto multiply = [&](const Bytes& activations) {
            std::vector<float> y(static_cast<size_t>(count * n));
            table->matmul({type, n, k, packed.size() > 0 ? packed.data() : stored.data(), alone.data(),
                           activations.data(), count, 0, n, y.data(), n});
            return y;
          };
          EXPECT_EQ(multiply(got), multiply(want)) << table->isa << " " << traits(type).name << " k=" << k;
        }
      }
}

}  // namespace
}  // namespace llada::kernels
