// What rounding activations to eight bits may cost on inputs as large models have them: a few channels many times the
// rest, the same ones in every row or others in each. The oracle's groups of 32 are the measure; a table that lets an
// outlier coarsen more than its own group fails here, as does one whose integer sums or scales lose what the rounding
// left.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <span>

#include "kernel_test_data.h"
#include "tensor/computed.h"

namespace llada::kernels {
namespace {

using namespace testing;

bool quick() { return std::getenv("LLADA_TEST_QUICK") != nullptr; }

std::vector<DType> integer_types() {
  std::vector<DType> types = all_types();
  std::erase_if(types, [](DType type) { return !scalar_table()->integer_path(type); });
  return types;
}

struct Inputs {
  const char* name;
  int64_t channels;  // how many are larger than the rest
  float factor;      // by how much
  bool shared;       // the same channels in every row
};
constexpr Inputs kInputs[] = {
    {"normal", 0, 1, true},
    {"3 channels x 8", 3, 8, true},
    {"3 channels x 32", 3, 32, true},
    {"3 channels x 100", 3, 100, true},
    {"16 channels x 8", 16, 8, true},
    {"16 channels x 32", 16, 32, true},
    {"16 channels x 100", 16, 100, true},
    {"each row its own 5 x 50", 5, 50, false},
};

std::vector<float> rows_of(const Inputs& in, int64_t rows, int64_t k, uint64_t seed) {
  std::vector<float> x = normal_rows(rows, k, seed);
  Random random(seed + 1);
  std::vector<int64_t> channels(static_cast<size_t>(in.channels));
  for (int64_t r = 0; r < rows; ++r) {
    if (r == 0 || !in.shared)
      for (int64_t& c : channels) c = random.below(k);
    for (const int64_t c : channels) x[static_cast<size_t>(r * k + c)] *= in.factor;
    if (!in.shared)  // and rows of many magnitudes
      for (int64_t i = 0; i < k; ++i) x[static_cast<size_t>(r * k + i)] *= std::exp2(static_cast<float>(2 * r - 9));
  }
  return x;
}

// Scales of one magnitude, over four decades, or a quantizer's of normal weights where there is one for the type.
enum class Kind { plain, wide, quantized };

Bytes weights_of(DType type, int64_t n, int64_t k, Kind kind, uint64_t seed) {
  if (kind != Kind::quantized) return make_weights(type, n, k, kind == Kind::wide ? Fill::wide : Fill::random, seed);
  const std::vector<float> values = normal_rows(n, k, seed);
  Bytes bytes(n * row_bytes(type, k));
  for (int64_t c = 0; c < n; ++c) quantize_row(type, values.data() + c * k, bytes.data() + c * row_bytes(type, k), k);
  return bytes;
}

std::vector<double> products(const Problem& p, const Bytes& stored, const std::vector<float>& x) {
  return of_terms(p, stored, x,
                  [](std::span<const double> terms) { return std::accumulate(terms.begin(), terms.end(), 0.0); });
}

// Root mean square error of each row.
std::vector<double> errors(const Problem& p, const std::vector<float>& got, const std::vector<double>& want) {
  std::vector<double> rms(static_cast<size_t>(p.rows));
  for (int64_t r = 0; r < p.rows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < p.n; ++c) {
      const double d = got[static_cast<size_t>(r * p.n + c)] - want[static_cast<size_t>(r * p.n + c)];
      sum += d * d;
    }
    rms[static_cast<size_t>(r)] = std::sqrt(sum / static_cast<double>(p.n));
  }
  return rms;
}

// Of one row relative to the oracle's, and the mean over the rows. The mean is what the promise is about: 1.15 at most,
// 1.05 for Q8_0; held closer, since the quants are the oracle's and what else is lost is small beside their rounding.
// Of few products it is known less well.
// Types that are computed with a loss of their own (tensor/computed.h) are given that beside it.
double mean_limit(DType type) { return computed_error(type) > 1e-3 ? 1.5 : quick() ? 1.05 : 1.02; }
double row_limit(DType type) { return computed_error(type) > 1e-3 ? 1.7 : 1.15; }

void expect_error_of_groups(const Problem& p, const Bytes& stored, const std::vector<float>& x,
                            const std::string& what) {
  const std::vector<double> want = products(p, stored, x);
  const std::vector<double> oracle = errors(p, multiply(*scalar_table(), p, stored.data(), x), want);
  for (const KernelTable* table : available()) {
    const Weights weights(*table, p.type, stored, p.n, p.k);
    const std::vector<double> got = errors(p, multiply(*table, p, weights.data(), x), want);
    double mean = 0;
    for (size_t r = 0; r < got.size(); ++r) {
      ASSERT_GT(oracle[r], 0);
      mean += got[r] / oracle[r] / static_cast<double>(got.size());
      EXPECT_LE(got[r], row_limit(p.type) * oracle[r]) << name_of(*table, p) << ", " << what << ", row " << r;
    }
    EXPECT_LE(mean, mean_limit(p.type)) << name_of(*table, p) << ", " << what;
    if (std::getenv("LLADA_TEST_PRINT") != nullptr)  // for docs/lab/kernels.md
      fmt::print("{:<10} {:<5} {:<40} {:.4f}\n", table->isa, traits(p.type).name, what, mean);
  }
}

TEST(ActivationError, IsThatOfGroupsOf32WhateverTheOutliers) {
  for (const DType type : integer_types())
    for (const Kind kind : {Kind::plain, Kind::wide, Kind::quantized})
      for (const Inputs& in : kInputs) {
        if (kind == Kind::quantized && !can_quantize(type)) continue;
        if (quick() && (kind == Kind::wide || in.factor == 8)) continue;
        const Problem p{type, 67, 4096, quick() ? 3 : 11};
        const char* weights[] = {"plain", "wide", "quantized"};
        expect_error_of_groups(p, weights_of(type, p.n, p.k, kind, 201), rows_of(in, p.rows, p.k, 202),
                               fmt::format("{}, {} weights", in.name, weights[static_cast<int>(kind)]));
      }
}

// Squared, what the groups bring to each product: the measure of what summing them up may lose, which the product
// itself is not where they cancel.
std::vector<double> group_magnitudes(const Problem& p, const Bytes& stored, const std::vector<float>& x) {
  return of_terms(p, stored, x, [](std::span<const double> terms) {
    double squares = 0;
    for (size_t g = 0; g < terms.size(); g += 32) {
      const double sum = sum_of_magnitudes(terms.subspan(g, 32));
      squares += sum * sum;
    }
    return squares;
  });
}

// What a table loses beside the oracle, which rounds the activations to the same quants: over a row at most a
// thousandth of what the groups bring. Blocks, chunks and row tiles that end early, whole ones beside them, and columns
// that fill no tile.
TEST(ActivationError, OddWidthsRowsAndColumns) {
  for (const DType type : integer_types())
    for (const int64_t k : {32, 64, 96, 160, 224, 256, 288, 480, 768, 4128})
      for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}) {
        if (k % traits(type).elements != 0 || (k > 288 && rows % (quick() ? 8 : 4) != 1)) continue;
        // Where a row ends with half a chunk, a whole column tile ends the weights: nothing behind them may be read.
        const Problem p{type, k % 64 == 32 ? 16 : 19, k, rows};
        const Bytes stored = make_weights(type, p.n, k, Fill::random, 203);
        const std::vector<float> x = rows_of({"", std::max<int64_t>(1, k / 256), 32, false}, rows, k, 204);
        const std::vector<float> want = multiply(*scalar_table(), p, stored.data(), x);
        const std::vector<double> scale = group_magnitudes(p, stored, x);
        for (const KernelTable* table : available()) {
          const Weights weights(*table, type, stored, p.n, k);
          const std::vector<float> got = multiply(*table, p, weights.data(), x);
          for (int64_t r = 0; r < rows; ++r) {
            double lost = 0, norm = 0;
            for (auto i = static_cast<size_t>(r * p.n); i < static_cast<size_t>((r + 1) * p.n); ++i) {
              lost += (static_cast<double>(got[i]) - want[i]) * (static_cast<double>(got[i]) - want[i]);
              norm += scale[i];
            }
            ASSERT_LE(std::sqrt(lost), (1e-3 + computed_error(type)) * std::sqrt(norm))
                << name_of(*table, p) << " row " << r;
          }
        }
      }
}

// One group alone in its block counts, above and below the limit where it is taken for zero; what is below adds
// nothing.
TEST(ActivationError, GroupsBelowTheLimitCountAsZero) {
  for (const KernelTable* table : available())
    for (const DType type : integer_types()) {
      const Problem p{type, 18, 256, 3};
      const Bytes stored = make_weights(type, p.n, p.k, Fill::random, 205);
      const Weights weights(*table, type, stored, p.n, p.k);
      std::vector<float> x = exact_rows(p.rows, p.k, 206), alone(x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        const size_t row = i / 256, group = i % 256 / 32;
        const bool small = row == 0 ? group != 2 : row == 1 ? group % 2 == 0 : true;
        x[i] = small ? std::copysign(0x1p-121f, x[i]) : x[i] == 0 ? 1 : x[i];
        alone[i] = small ? 0 : x[i];
      }
      const std::vector<float> got = multiply(*table, p, weights.data(), x);
      EXPECT_EQ(got, multiply(*table, p, weights.data(), alone)) << name_of(*table, p);
      for (size_t i = static_cast<size_t>(2 * p.n); i < got.size(); ++i) EXPECT_EQ(got[i], 0) << name_of(*table, p);
    }
}

}  // namespace
}  // namespace llada::kernels
