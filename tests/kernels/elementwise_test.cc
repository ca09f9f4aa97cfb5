// Row-wise kernels of every table against the oracle.
#include <gtest/gtest.h>

#include <limits>

#include "kernel_test_data.h"

namespace llada::kernels {
namespace {

using namespace testing;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const std::vector<int64_t> kLengths = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 100, 128, 255, 1000, 4096};

TEST(RmsNorm, MatchesOracle) {
  for (const KernelTable* table : available())
    for (const int64_t n : kLengths)
      for (const float magnitude : {1.0f, 1e-4f, 1e6f}) {
        std::vector<float> x = normal_rows(1, n, 41), weight = normal_rows(1, n, 42);
        for (float& v : x) v *= magnitude;
        std::vector<float> want(x.size()), got(x.size());
        scalar_table()->rms_norm(x.data(), weight.data(), 1e-6f, n, want.data());
        table->rms_norm(x.data(), weight.data(), 1e-6f, n, got.data());
        for (size_t i = 0; i < x.size(); ++i)  // the sum of n squares, a root, a quotient, two products
          ASSERT_NEAR(got[i], want[i], std::fabs(want[i]) * kEpsilon * (8 + 0.5 * std::sqrt(static_cast<double>(n))))
              << table->isa << " n=" << n;
      }
}

TEST(RmsNorm, InPlace) {
  for (const KernelTable* table : available()) {
    std::vector<float> x = normal_rows(1, 100, 43), weight = normal_rows(1, 100, 44), y(100);
    table->rms_norm(x.data(), weight.data(), 1e-5f, 100, y.data());
    table->rms_norm(x.data(), weight.data(), 1e-5f, 100, x.data());
    EXPECT_EQ(x, y) << table->isa;
  }
}

TEST(Add, MatchesOracleBitForBit) {
  for (const KernelTable* table : available())
    for (const int64_t n : kLengths) {
      const std::vector<float> x = normal_rows(1, n, 45);
      std::vector<float> want = normal_rows(1, n, 46), got = want;
      scalar_table()->add(x.data(), n, want.data());
      table->add(x.data(), n, got.data());
      EXPECT_EQ(got, want) << table->isa << " n=" << n;
    }
}

TEST(Swiglu, MatchesOracle) {
  for (const KernelTable* table : available())
    for (const int64_t n : kLengths) {
      std::vector<float> gate = normal_rows(1, n, 47), up = normal_rows(1, n, 48);
      for (float& v : gate) v *= 8;
      std::vector<float> want(gate.size()), got(gate.size());
      scalar_table()->swiglu(gate.data(), up.data(), n, want.data());
      table->swiglu(gate.data(), up.data(), n, got.data());
      for (size_t i = 0; i < gate.size(); ++i)  // exp (2 ulp here), a sum, a quotient, a product on either side
        ASSERT_NEAR(got[i], want[i], std::fabs(want[i]) * kEpsilon * 6) << table->isa << " gate " << gate[i];
    }
}

TEST(Swiglu, Extremes) {
  const std::vector<float> gate = {0,    -0.0f, 20,    -20,   87,     -87,    88.5f,   -88.5f, 100,
                                   -100, 1000,  -1000, 3e38f, -3e38f, 1e-38f, -1e-38f, 1};
  const std::vector<float> up(gate.size(), 1.0f);
  for (const KernelTable* table : available()) {
    std::vector<float> y(gate.size());
    table->swiglu(gate.data(), up.data(), static_cast<int64_t>(gate.size()), y.data());
    for (size_t i = 0; i < gate.size(); ++i) {
      const double want = gate[i] / (1 + std::exp(-static_cast<double>(gate[i])));
      // Below -87 the true value leaves the range of normal floats: anything that small will do.
      ASSERT_NEAR(y[i], want, std::fabs(want) * kEpsilon * 6 + 1e-34) << table->isa << " gate " << gate[i];
    }
  }
}

// gelu(x) = x Phi(x), which its formula follows within 4e-4: a slip in the constants would show there.
TEST(Geglu, MatchesOracleAndTheExactGelu) {
  for (const KernelTable* table : available())
    for (const int64_t n : kLengths) {
      std::vector<float> gate = normal_rows(1, n, 47), up = normal_rows(1, n, 48);
      for (float& v : gate) v *= 4;
      std::vector<float> want(gate.size()), got(gate.size());
      scalar_table()->geglu(gate.data(), up.data(), n, want.data());
      table->geglu(gate.data(), up.data(), n, got.data());
      for (size_t i = 0; i < gate.size(); ++i) {
        const double x = gate[i], exact = x / 2 * std::erfc(-x / std::sqrt(2.0)) * up[i];
        ASSERT_NEAR(got[i], exact, 1e-3 * std::fabs(up[i])) << table->isa << " gate " << x;
        // The exponent's rounding counts as often as the exponent is large.
        const double terms = 10 + 2 * std::fabs(x) * (1 + 0.045 * x * x);
        ASSERT_NEAR(got[i], want[i], (std::fabs(want[i]) + 1e-6) * kEpsilon * terms) << table->isa << " gate " << x;
      }
    }
}

TEST(Geglu, Extremes) {
  const std::vector<float> gate = {0,     -0.0f, 20,     -20,   87,     -87,    100,     -100,   1000,
                                   -1000, 1e13f, -1e13f, 3e38f, -3e38f, 1e-38f, -1e-38f, 1.5e19f};
  const std::vector<float> up(gate.size(), 1.0f);
  for (const KernelTable* table : available()) {
    std::vector<float> y(gate.size());
    table->geglu(gate.data(), up.data(), static_cast<int64_t>(gate.size()), y.data());
    for (size_t i = 0; i < gate.size(); ++i) {
      const double want = std::fabs(gate[i]) < 1 ? gate[i] / 2.0 : std::max(0.0f, gate[i]);
      ASSERT_NEAR(y[i], want, std::fabs(want) * 1e-6 + 1e-30) << table->isa << " gate " << gate[i];
    }
  }
}

TEST(SoftCap, MatchesTheFormulaAndKeepsToItsBound) {
  for (const KernelTable* table : available())
    for (const float cap : {0.5f, 30.0f, 50.0f, 1e-3f, 1e30f})
      for (const int64_t n : kLengths)
        for (const float spread : {0.01f, 1.0f, 20.0f, 1e6f}) {
          const std::vector<float> x = normal_rows(1, n, 49);
          std::vector<float> got = x;
          for (float& v : got) v *= spread * std::min(cap, 100.0f);
          const std::vector<float> from = got;
          table->soft_cap(got.data(), n, cap);
          for (size_t i = 0; i < got.size(); ++i) {
            const double want = cap * std::tanh(static_cast<double>(from[i]) / cap);
            // Of what is far below the cap an absolute error is left: 1 - e^-2u.
            ASSERT_NEAR(got[i], want, std::fabs(want) * 8 * kEpsilon + 4 * kEpsilon * cap) << table->isa << from[i];
            ASSERT_LE(std::fabs(got[i]), cap) << table->isa;
          }
        }
}

TEST(Rope, MatchesOracle) {
  for (const KernelTable* table : available())
    for (const int64_t head_dim : {8, 16, 64, 80, 128})
      for (const bool partial : {false, true})
        for (const bool adjacent : {false, true}) {
          const int64_t rotary = partial ? head_dim / 2 : head_dim, heads = 3;
          std::vector<float> cosines, sines;
          for (int64_t j = 0; j < rotary / 2; ++j) {
            cosines.push_back(std::cos(0.37f * static_cast<float>(j + 1)));
            sines.push_back(std::sin(0.37f * static_cast<float>(j + 1)));
          }
          const std::vector<float> x = normal_rows(heads, head_dim, 49);
          std::vector<float> want = x, got = x;
          const RopeArgs args{cosines.data(), sines.data(), heads, head_dim, rotary, adjacent};
          scalar_table()->rope(want.data(), args);
          table->rope(got.data(), args);
          for (size_t i = 0; i < x.size(); ++i)  // |x| < 3.5; two products and a sum
            ASSERT_NEAR(got[i], want[i], 3.5 * 4 * kEpsilon) << table->isa << " head_dim " << head_dim << " at " << i;
          for (size_t i = 0; i < x.size(); ++i) {
            if (static_cast<int64_t>(i) % head_dim >= rotary) {
              ASSERT_EQ(got[i], x[i]) << table->isa << " beyond rotary";
            }
          }
        }
}

TEST(StoreHalf, MatchesOracleBitForBit) {
  std::vector<float> x = {
      0.0f,         -0.0f,        1,          -1,         65504,      65519,      65520,           -65520,
      1e30f,        kInfinity,    -kInfinity, 0x1p-24f,   0x1p-25f,   0x1.8p-25f, 0x1.000002p-25f, 0x1p-14f,
      0x1.ffcp-15f, 0x1.ffep-15f, 1e-30f,     0x1.002p0f, 0x1.006p0f, 0x1.001p0f};
  Random random(50);
  for (int i = 0; i < 2000; ++i) x.push_back(random.normal() * std::exp2(static_cast<float>(random.below(44)) - 26));
  for (const KernelTable* table : available())
    for (const int64_t n : {int64_t{1}, int64_t{5}, int64_t{16}, int64_t{23}, static_cast<int64_t>(x.size())}) {
      std::vector<uint16_t> want(static_cast<size_t>(n)), got(want);
      scalar_table()->store_half(x.data(), n, want.data());
      table->store_half(x.data(), n, got.data());
      for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got[i], want[i]) << table->isa << " of " << x[i];
    }
}

TEST(StoreHalf, NanStaysNan) {
  const std::vector<float> x(20, std::numeric_limits<float>::quiet_NaN());
  for (const KernelTable* table : available()) {
    std::vector<uint16_t> y(x.size());
    table->store_half(x.data(), static_cast<int64_t>(x.size()), y.data());
    for (const uint16_t half : y) EXPECT_TRUE(std::isnan(f16_to_float(half))) << table->isa;
  }
}

void expect_stats(const KernelTable& table, const std::vector<float>& logits) {
  const auto n = static_cast<int64_t>(logits.size());
  const SoftmaxStats want = scalar_table()->softmax_stats(logits.data(), n);
  const SoftmaxStats got = table.softmax_stats(logits.data(), n);
  ASSERT_EQ(got.max, want.max) << table.isa << " n=" << n;
  // exp in float (2 ulp and the rounding of l - max), summed in double.
  double slack = 0;
  for (const float l : logits) {
    const double d = static_cast<double>(l) - want.max;
    if (d > -1e30) slack += (std::fabs(d) + 1) * std::exp(d) * (4 + std::fabs(d)) * kEpsilon;
  }
  ASSERT_NEAR(got.sum, want.sum, slack + 1e-30) << table.isa << " n=" << n;
  ASSERT_NEAR(got.weighted, want.weighted, slack + 1e-30) << table.isa << " n=" << n;
}

TEST(SoftmaxStats, MatchesOracle) {
  for (const KernelTable* table : available())
    for (const int64_t n : kLengths)
      for (const float spread : {0.01f, 3.0f, 60.0f, 1e4f}) {
        std::vector<float> logits = normal_rows(1, n, 51);
        for (float& v : logits) v *= spread;
        expect_stats(*table, logits);
        for (size_t i = 0; i < logits.size(); i += 3) logits[i] = kNoLogit;
        expect_stats(*table, logits);
      }
}

// A stretch of which nothing takes part has sums, and weighs nothing beside one of logits.
TEST(SoftmaxStats, NothingThatTakesPart) {
  for (const KernelTable* table : available())
    for (const size_t n : {0u, 1u, 16u, 37u}) {
      const std::vector<float> logits(n, kNoLogit);
      const SoftmaxStats s = table->softmax_stats(logits.data(), static_cast<int64_t>(n));
      EXPECT_EQ(s.max, n == 0 ? -kInfinity : kNoLogit) << table->isa;
      EXPECT_EQ(s.sum, n) << table->isa;
      EXPECT_EQ(s.weighted, 0) << table->isa;
    }
}

TEST(SoftmaxStats, EqualLogitsCountExactly) {
  for (const KernelTable* table : available()) {
    const std::vector<float> logits(1003, 7.25f);
    const SoftmaxStats s = table->softmax_stats(logits.data(), 1003);
    EXPECT_EQ(s.sum, 1003) << table->isa;
    EXPECT_EQ(s.weighted, 0) << table->isa;
  }
}

void expect_top2(const KernelTable& table, const std::vector<float>& logits) {
  const auto n = static_cast<int64_t>(logits.size());
  const Top2 want = scalar_table()->top2(logits.data(), n), got = table.top2(logits.data(), n);
  ASSERT_EQ(got.best, want.best) << table.isa << " n=" << n;
  ASSERT_EQ(got.second, want.second) << table.isa << " n=" << n;
  ASSERT_EQ(got.best_value, want.best_value) << table.isa << " n=" << n;
  ASSERT_EQ(got.second_value, want.second_value) << table.isa << " n=" << n;
}

TEST(Top2, MatchesOracle) {
  for (const KernelTable* table : available()) {
    expect_top2(*table, {});
    for (const int64_t n : kLengths)
      for (uint64_t seed = 0; seed < 20; ++seed) expect_top2(*table, normal_rows(1, n, 60 + seed));
  }
}

TEST(Top2, TiesGoToTheLowerIndex) {
  Random random(90);
  for (const KernelTable* table : available()) {
    for (int round = 0; round < 300; ++round) {  // few distinct values: ties everywhere, across and within vectors
      std::vector<float> logits(static_cast<size_t>(1 + random.below(150)));
      for (float& v : logits) v = static_cast<float>(random.below(3));
      expect_top2(*table, logits);
    }
    expect_top2(*table, std::vector<float>(77, 1.5f));
  }
}

TEST(Top2, TheTwoLargestAtAnyPlaces) {
  for (const KernelTable* table : available())
    for (size_t first = 0; first < 70; ++first)
      for (size_t second = 0; second < 70; ++second) {
        if (first == second) continue;
        std::vector<float> logits = normal_rows(1, 70, 91);
        logits[first] = 100;
        logits[second] = 99;
        expect_top2(*table, logits);
      }
}

TEST(Top2, MinusInfinityTakesNoPart) {
  for (const KernelTable* table : available())
    for (const size_t n : {1u, 2u, 16u, 33u}) {
      std::vector<float> logits(n, -kInfinity);
      expect_top2(*table, logits);
      logits[n - 1] = -3e38f;
      expect_top2(*table, logits);
      const Top2 one = table->top2(logits.data(), static_cast<int64_t>(n));
      EXPECT_EQ(one.best, static_cast<int32_t>(n - 1)) << table->isa;
      EXPECT_EQ(one.second, -1) << table->isa;
    }
}

}  // namespace
}  // namespace llada::kernels
