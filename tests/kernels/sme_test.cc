// What the SME table promises beyond the contract that all tables share: the bits of the definition in kernels/sme.h,
// which this file computes in plain C++, for every count of rows up to two blocks and any SVL (tools/test_arm64.sh
// runs these tests with each). Skipped, saying so, where the processor has no SME.
#include "kernels/sme.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/system.h"
#include "kernel_test_data.h"
#include "tensor/computed.h"

namespace llada::kernels {
namespace {

using namespace testing;

#define SKIP_WITHOUT_SME() \
  if (sme_table() == nullptr) GTEST_SKIP() << "this processor has no SME"

float half(double x) { return f16_to_float(float_to_f16(static_cast<float>(x))); }

// The weights of column c as F16 in units of `unit`, a power of two.
std::vector<float> halves(DType type, const Bytes& stored, int64_t c, int64_t k, double& unit) {
  const auto* row = reinterpret_cast<const uint8_t*>(stored.data() + c * row_bytes(type, k));
  const auto scale = [&](int64_t g) {
    uint16_t bits;
    std::memcpy(&bits, row + g * traits(type).bytes, 2);
    return f16_to_float(bits);
  };
  float largest = 0;
  for (int64_t g = 0; g < k / 32; ++g) largest = std::max(largest, std::fabs(scale(g)));
  int above = 0;
  std::frexp(largest, &above);
  const int shift = type == DType::Q4_0 ? 12 : 8;  // of the largest product of scale and quant: 2^15
  unit = std::ldexp(1.0, above - shift);
  std::vector<float> w(static_cast<size_t>(k)), values(static_cast<size_t>(k));
  dequantize_row(type, stored.data() + c * row_bytes(type, k), w.data(), k);
  for (size_t i = 0; i < w.size(); ++i) {
    // A scale is kept to F16, which loses what is below 2^-24 of the largest (Q8_0: 2^-32).
    const double d = scale(static_cast<int64_t>(i) / 32);
    const double kept = half(std::ldexp(d, (type == DType::Q4_0 ? 0 : 8) - above)) * (type == DType::Q4_0 ? 4096 : 1);
    values[i] = half(d == 0 ? 0 : std::round(w[i] / d) * kept);
  }
  return values;
}

// A row of activations as F16 in units of `unit`.
std::vector<float> halves(const float* x, int64_t k, double& unit) {
  float largest = 0;
  for (int64_t i = 0; i < k; ++i) largest = std::max(largest, std::fabs(x[i]));
  int above = 0;
  std::frexp(largest / 127, &above);
  unit = std::ldexp(1.0, above - 8);
  Bytes quantized(scalar_table()->activation_bytes(1, k));
  scalar_table()->quantize_rows(x, 1, k, 0, 1, kAllTypes, quantized.data());
  const auto* quants = reinterpret_cast<const int8_t*>(quantized.data());
  const auto* scales = reinterpret_cast<const float*>(quantized.data() + (k + 63) / 64 * 64);
  std::vector<float> values(static_cast<size_t>(k));
  for (int64_t i = 0; i < k; ++i)
    values[static_cast<size_t>(i)] = half(quants[i] * static_cast<float>(scales[i / 32] / unit));
  return values;
}

std::vector<float> defined(const Problem& p, const Bytes& stored, const std::vector<float>& x) {
  std::vector<std::vector<float>> rows, columns;
  std::vector<double> row_units(static_cast<size_t>(p.rows)), column_units(static_cast<size_t>(p.n));
  for (int64_t r = 0; r < p.rows; ++r)
    rows.push_back(halves(x.data() + r * p.k, p.k, row_units[static_cast<size_t>(r)]));
  for (int64_t c = 0; c < p.n; ++c)
    columns.push_back(halves(p.type, stored, c, p.k, column_units[static_cast<size_t>(c)]));
  std::vector<float> y;
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t c = 0; c < columns.size(); ++c) {
      float sum = 0;
      for (size_t i = 0; i < rows[r].size(); i += 2)  // a pair is exact in double, then rounded to float, then added
        sum += static_cast<float>(double{rows[r][i]} * columns[c][i] + double{rows[r][i + 1]} * columns[c][i + 1]);
      y.push_back(sum * static_cast<float>(column_units[c]) * static_cast<float>(row_units[r]));
    }
  return y;
}

void expect_bits(const Problem& p, const Bytes& stored, const std::vector<float>& x) {
  const std::vector<float> want = defined(p, stored, x);
  const std::vector<float> got = multiply(*sme_table(), p, Weights(*sme_table(), p.type, stored, p.n, p.k).data(), x);
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_EQ(got[i], want[i]) << name_of(*sme_table(), p) << " row " << i / static_cast<size_t>(p.n) << " column "
                               << i % static_cast<size_t>(p.n);
}

TEST(Sme, EveryCountOfRowsHasTheBitsOfTheDefinition) {
  SKIP_WITHOUT_SME();
  for (const DType type : {DType::Q4_0, DType::Q8_0}) {
    const Problem whole{type, 71, 64, 130};
    const Bytes stored = make_weights(type, whole.n, whole.k, Fill::wide, 301);
    const std::vector<float> x = normal_rows(whole.rows, whole.k, 302), want = defined(whole, stored, x);
    const Weights weights(*sme_table(), type, stored, whole.n, whole.k);
    for (int64_t rows = 1; rows <= whole.rows; ++rows) {
      const Problem p{type, whole.n, whole.k, rows};
      const std::vector<float> some(x.begin(), x.begin() + rows * p.k),
          got = multiply(*sme_table(), p, weights.data(), some);
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(got[i], want[i]) << name_of(*sme_table(), p) << " row " << i / static_cast<size_t>(p.n) << " column "
                                   << i % static_cast<size_t>(p.n);
    }
  }
}

// One column alone, parts of a vector, one more and one less than a panel; rows of few and of many groups.
TEST(Sme, EveryShapeHasTheBitsOfTheDefinition) {
  SKIP_WITHOUT_SME();
  for (const DType type : {DType::Q4_0, DType::Q8_0}) {
    for (const auto& [n, k, rows] : {std::tuple{1, 32, 1}, {3, 64, 5}, {63, 96, 9}, {65, 32, 33}, {130, 32, 18}}) {
      const Problem p{type, n, k, rows};
      expect_bits(p, make_weights(type, n, k, Fill::wide, 303), normal_rows(rows, k, 304));
    }
    for (const Fill fill : {Fill::random, Fill::low, Fill::high, Fill::alternate}) {
      const Problem p{type, 20, 512, 3};
      expect_bits(p, make_weights(type, p.n, p.k, fill, 305), exact_rows(p.rows, p.k, 306));
    }
  }
}

// Rows of magnitudes at both ends of what floats hold, zeros, one large value among small ones: F16 has few exponents,
// so the units of rows must carry them.
TEST(Sme, RowsOfAnyMagnitudeHaveTheBitsOfTheDefinition) {
  SKIP_WITHOUT_SME();
  const float factors[] = {1, 0x1p-118f, 0x1p+118f, 0, 0x1p-60f, 0x1p+60f};
  for (const DType type : {DType::Q4_0, DType::Q8_0}) {
    const Problem p{type, 21, 128, 6};
    std::vector<float> x = normal_rows(p.rows, p.k, 307);
    for (size_t i = 0; i < x.size(); ++i) x[i] *= factors[i / static_cast<size_t>(p.k)];
    x[5] = 3000, x[70] = -1e-6f;
    expect_bits(p, make_weights(type, p.n, p.k, Fill::random, 308), x);
  }
}

// Scales of a column at both ends of F16, its subnormals and largest among them; 2^-30 of the largest counts as zero.
TEST(Sme, ColumnsOfAnyMagnitudeHaveTheBitsOfTheDefinition) {
  SKIP_WITHOUT_SME();
  const float scales[] = {0x1p-24f, 65504, 0x1p-15f, 1, 0, -65504, -0x1p-24f, 0x1p-9f};
  for (const DType type : {DType::Q4_0, DType::Q8_0}) {
    const Problem p{type, 16, 128, 5};
    const Bytes stored = make_weights(type, p.n, p.k, Fill::random, 309);
    for (int64_t g = 0; g < p.n * 4; ++g) {  // columns 0 to 7: one scale; 8 to 15: four
      const uint16_t bits = float_to_f16(scales[(g < 32 ? g / 4 : g) % 8]);
      std::memcpy(stored.data() + g * traits(type).bytes, &bits, 2);
    }
    expect_bits(p, stored, exact_rows(p.rows, p.k, 310));
  }
}

// One value that is not finite makes its row's products NaN and leaves the others' bits, and so does a column's scale.
TEST(Sme, ValuesThatAreNotFiniteStayInTheirRowAndColumn) {
  SKIP_WITHOUT_SME();
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  for (const DType type : {DType::Q4_0, DType::Q8_0})
    for (const int64_t rows : {1, 3, 20, 66})
      for (const float value : bad) {
        const Problem p{type, 70, 64, rows};
        const Bytes stored = make_weights(type, p.n, p.k, Fill::random, 311);
        std::vector<float> x = normal_rows(rows, p.k, 312);
        const std::vector<float> clean =
            multiply(*sme_table(), p, Weights(*sme_table(), type, stored, p.n, p.k).data(), x);
        x[static_cast<size_t>((rows - 1) * p.k + 37)] = value;
        const uint16_t bits = float_to_f16(value);
        std::memcpy(stored.data() + 65 * row_bytes(type, p.k) + traits(type).bytes, &bits, 2);
        const std::vector<float> got =
            multiply(*sme_table(), p, Weights(*sme_table(), type, stored, p.n, p.k).data(), x);
        for (size_t i = 0; i < got.size(); ++i) {
          const bool row = static_cast<int64_t>(i) / p.n == rows - 1, column = static_cast<int64_t>(i) % p.n == 65;
          if (row)
            ASSERT_TRUE(std::isnan(got[i])) << name_of(*sme_table(), p) << " gave " << got[i];
          else if (column)
            ASSERT_FALSE(std::isfinite(got[i])) << name_of(*sme_table(), p) << " gave " << got[i];
          else
            ASSERT_EQ(got[i], clean[i]) << name_of(*sme_table(), p) << " at " << i;
        }
      }
}

// Types with kernels of neon_i8mm alone have its bits, from activations that hold both forms.
TEST(Sme, OtherTypesHaveTheBitsOfTheOtherTable) {
  SKIP_WITHOUT_SME();
  for (const DType type : all_types()) {
    const DType computed = computed_type(type);
    if (!sme_table()->integer_path(type) || computed == DType::Q4_0 || computed == DType::Q8_0) continue;
    const Problem p{type, 43, 512, 9};
    const Bytes stored = make_weights(type, p.n, p.k, Fill::wide, 313);
    const std::vector<float> x = normal_rows(p.rows, p.k, 314);
    EXPECT_EQ(multiply(*sme_table(), p, Weights(*sme_table(), type, stored, p.n, p.k).data(), x),
              multiply(*neon_i8mm_table(), p, Weights(*neon_i8mm_table(), type, stored, p.n, p.k).data(), x))
        << name_of(*sme_table(), p);
  }
}

// The look-up of SME2, which emulators before qemu 10.1 do not have, beside shifts and conversions.
TEST(Sme, BothWaysToUnpackNibblesGiveTheSameBits) {
  if (!arm_features().sme2) GTEST_SKIP() << "this processor has no SME2: its look-up was not tested";
#ifdef __aarch64__
  for (const int64_t rows : {1, 8, 16, 17, 31, 33, 64, 65, 130})
    for (const int64_t n : {1, 15, 40, 64, 130}) {
      const Problem p{DType::Q4_0, n, 96, rows};
      const Bytes stored = make_weights(p.type, n, p.k, Fill::wide, 317);
      const Weights weights(*sme_table(), p.type, stored, n, p.k);
      const std::vector<float> x = normal_rows(rows, p.k, 318);
      Bytes activations(sme::activation_bytes(rows, p.k));
      for (int64_t r = 0; r < rows; ++r) sme::quantize_row(x.data() + r * p.k, p.k, rows, r, activations.data());
      std::vector<float> y[2];
      for (const bool sme2 : {false, true}) {
        y[sme2].assign(static_cast<size_t>(rows * n), kPoison);
        sme::matmul({p.type, n, p.k, weights.data(), x.data(), activations.data(), rows, 0, n, y[sme2].data(), n},
                    sme2);
      }
      EXPECT_EQ(y[0], y[1]) << name_of(*sme_table(), p);
    }
#endif
}

// Registers that a caller keeps over a call, all of which streaming mode clears.
TEST(Sme, VectorRegistersOfTheCallerAreKept) {
  SKIP_WITHOUT_SME();
#ifdef __aarch64__
  const Problem p{DType::Q4_0, 16, 32, 1};
  const Bytes stored = make_weights(p.type, p.n, p.k, Fill::random, 315);
  const Weights weights(*sme_table(), p.type, stored, p.n, p.k);
  const std::vector<float> x = normal_rows(p.rows, p.k, 316);
  Bytes activations(sme_table()->activation_bytes(p.rows, p.k));
  sme_table()->quantize_rows(x.data(), p.rows, p.k, 0, p.rows, kAllTypes, activations.data());
  std::vector<float> y(static_cast<size_t>(p.n));
  const MatmulArgs args{p.type, p.n, p.k, weights.data(), x.data(), activations.data(), p.rows, 0, p.n, y.data(), p.n};
  const auto matmul = sme_table()->matmul;
  double kept[8];
  asm volatile(
      "fmov d8, #8.0\n fmov d9, #9.0\n fmov d10, #10.0\n fmov d11, #11.0\n fmov d12, #12.0\n fmov d13, #13.0\n"
      "fmov d14, #14.0\n fmov d15, #15.0\n mov x0, %[args]\n blr %[matmul]\n stp d8, d9, [%[kept]]\n"
      "stp d10, d11, [%[kept], #16]\n stp d12, d13, [%[kept], #32]\n stp d14, d15, [%[kept], #48]\n"
      :
      : [args] "r"(&args), [matmul] "r"(matmul), [kept] "r"(kept)
      : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",
        "x17", "x18", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",
        "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",
        "v30", "v31", "cc", "memory");
  for (int i = 0; i < 8; ++i) EXPECT_EQ(kept[i], 8 + i);
  EXPECT_EQ(y, defined(p, stored, x));
#endif
}

}  // namespace
}  // namespace llada::kernels
