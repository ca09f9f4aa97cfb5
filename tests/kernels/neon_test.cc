// What only the 64-bit Arm tables promise: the right ones are found on the processor at hand, the three
// multiply to the same bits, and shapes that no model has (odd head sizes and widths) work. Skipped on other
// processors.
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernel_test_data.h"

namespace llada::kernels {
namespace {

using namespace testing;

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const KernelTable* table : available()) found.emplace_back(table->isa);
  return found;
}

std::vector<const KernelTable*> arm_tables() {
  std::vector<const KernelTable*> found;
  for (const KernelTable* table : {neon_i8mm_table(), neon_dotprod_table(), neon_table()})
    if (table != nullptr) found.push_back(table);
  return found;
}

#define SKIP_WITHOUT_ARM() \
  if (arm_tables().empty()) GTEST_SKIP() << "this processor is not 64-bit Arm"

// The emulator is told by name which processor to be; a table that hid itself would pass every other test.
TEST(Neon, TablesFitTheEmulatedProcessor) {
  SKIP_WITHOUT_ARM();
  const char* variable = std::getenv("QEMU_CPU");
  const std::string cpu = variable != nullptr ? variable : "";
  using Names = std::vector<std::string>;
  if (cpu == "max") {
    EXPECT_EQ(names(), (Names{"neon_i8mm", "sme", "neon_dotprod", "neon", "scalar"}));
  } else if (cpu == "cortex-a76") {
    EXPECT_EQ(names(), (Names{"neon_dotprod", "neon", "scalar"}));
  } else if (cpu == "cortex-a72") {
    EXPECT_EQ(names(), (Names{"neon", "scalar"}));
  } else {
    GTEST_SKIP() << "QEMU_CPU does not name a processor that this test knows";
  }
}

TEST(Neon, AllTablesMultiplyToTheSameBits) {
  SKIP_WITHOUT_ARM();
  for (const DType type : all_types())
    for (const Fill fill : {Fill::random, Fill::wide, Fill::alternate})
      for (const int64_t rows : {1, 2, 3, 8, 13}) {
        const Problem p{type, 43, 1280, rows};
        const Bytes stored = make_weights(type, p.n, p.k, fill, 201);
        const std::vector<float> x = normal_rows(rows, p.k, 202);
        std::vector<std::vector<float>> results;
        for (const KernelTable* table : arm_tables())
          results.push_back(multiply(*table, p, Weights(*table, type, stored, p.n, p.k).data(), x));
        for (const auto& result : results)
          ASSERT_EQ(std::memcmp(result.data(), results[0].data(), result.size() * 4), 0)
              << name_of(*arm_tables()[0], p);
      }
}

// Too few columns to pack within the limit: the stored bytes are used, and the result must not depend on
// that.
TEST(Neon, PackedAndStoredWeightsGiveTheSameBits) {
  SKIP_WITHOUT_ARM();
  for (const KernelTable* table : arm_tables())
    for (const DType type : {DType::Q4_0, DType::Q4_1, DType::Q8_0, DType::Q8_M, DType::Q4_K, DType::Q6_K}) {
      const Problem many{type, 40, 512, 9}, few{type, 3, 512, 9};
      ASSERT_GT(table->packed_bytes(type, many.n, many.k), 0);
      ASSERT_EQ(table->packed_bytes(type, few.n, few.k), 0);
      const Bytes stored = make_weights(type, many.n, many.k, Fill::wide, 203);
      const std::vector<float> x = normal_rows(many.rows, many.k, 204);
      const std::vector<float> packed = multiply(*table, many, Weights(*table, type, stored, many.n, many.k).data(), x);
      const std::vector<float> plain = multiply(*table, few, stored.data(), x);
      for (int64_t r = 0; r < few.rows; ++r)
        ASSERT_EQ(std::memcmp(&packed[static_cast<size_t>(r * many.n)], &plain[static_cast<size_t>(r * few.n)], 12), 0)
            << table->isa << " " << traits(type).name << " row " << r;
    }
}

// Column i of the weights is 1 at value i: the product reads the quantized row back, q[i] * scale.
TEST(Neon, QuantizedRowsEqualTheOracle) {
  SKIP_WITHOUT_ARM();
  const Problem p{DType::Q8_0, 32, 32, 40};
  Bytes stored(p.n * row_bytes(p.type, p.k));
  for (int64_t c = 0; c < p.n; ++c) {
    auto& group = reinterpret_cast<GroupQ8_0*>(stored.data())[c];
    group.d = float_to_f16(1.0f);
    group.q[c] = 1;
  }
  std::vector<float> x = normal_rows(p.rows, p.k, 210);
  for (int64_t i = 0; i < 32; ++i) {
    x[static_cast<size_t>(i)] = i == 31 ? 127 : static_cast<float>(i - 16) + 0.5f;  // exact ties: to even
    x[static_cast<size_t>(32 + i)] *= 0x1p-122f;                                    // below 2^-120: zero
    x[static_cast<size_t>(64 + i)] *= 0x1p-110f;
    x[static_cast<size_t>(96 + i)] *= 0x1p+110f;
    x[static_cast<size_t>(128 + i)] = 0;
  }
  const std::vector<float> want = multiply(*scalar_table(), p, stored.data(), x);
  EXPECT_EQ(want[16], 0);
  EXPECT_EQ(want[17], 2);
  for (const KernelTable* table : arm_tables())
    EXPECT_EQ(multiply(*table, p, Weights(*table, p.type, stored, p.n, p.k).data(), x), want) << table->isa;
}

TEST(Neon, OddWidthsOfFloatWeights) {
  SKIP_WITHOUT_ARM();
  for (const KernelTable* table : arm_tables())
    for (const DType type : {DType::F32, DType::F16, DType::BF16})
      for (const int64_t k : {1, 3, 5, 13, 31})
        for (const int64_t rows : {1, 6}) {
          const Problem p{type, 7, k, rows};
          const Bytes stored = make_weights(type, p.n, k, Fill::random, 205);
          const std::vector<float> x = normal_rows(rows, k, 206);
          const std::vector<float> want = multiply(*scalar_table(), p, stored.data(), x);
          const std::vector<float> got = multiply(*table, p, stored.data(), x);
          for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-6) << name_of(*table, p);
        }
}

TEST(Neon, OddHeadSizes) {
  SKIP_WITHOUT_ARM();
  for (const KernelTable* table : arm_tables())
    for (const DType type : {DType::F32, DType::F16})
      for (const int64_t head_dim : {1, 3, 5, 18, 31})
        for (const int64_t rows : {1, 2, 3, 7}) {
          const int64_t keys = 75;
          const std::vector<float> q = normal_rows(rows, head_dim, 207);
          const Bytes k = make_weights(type, keys, head_dim, Fill::random, 208);
          const Bytes v = make_weights(type, keys, head_dim, Fill::random, 209);
          std::vector<float> scratch(static_cast<size_t>(attention_scratch(keys))), want(q.size()), got(q.size());
          AttentionArgs args{q.data(), head_dim, k.data(), v.data(), type,           keys,        head_dim,
                             1.5f,     0,        rows,     nullptr,  scratch.data(), want.data(), head_dim};
          scalar_table()->attention(args);
          args.out = got.data();
          table->attention(args);
          for (size_t i = 0; i < want.size(); ++i)
            ASSERT_NEAR(got[i], want[i], 1e-6) << table->isa << " head " << head_dim << " rows " << rows;
        }
}

}  // namespace
}  // namespace llada::kernels
