// Types that are computed as another one: what is left of their values.
#include "tensor/computed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/quantize.h"
#include "tensor/synthesize.h"

namespace llada {
namespace {

// The stored values and those that products see.
struct Both {
  std::vector<float> stored, computed;
};

Both both(DType type, const std::vector<std::byte>& bytes) {
  const int64_t n = static_cast<int64_t>(bytes.size()) / traits(type).bytes * traits(type).elements;
  Both values{std::vector<float>(static_cast<size_t>(n)), std::vector<float>(static_cast<size_t>(n))};
  std::vector<std::byte> converted(static_cast<size_t>(row_bytes(computed_type(type), n)));
  dequantize_row(type, bytes.data(), values.stored.data(), n);
  convert_row(type, bytes.data(), converted.data(), n);
  dequantize_row(computed_type(type), converted.data(), values.computed.data(), n);
  return values;
}

class Computed : public testing::TestWithParam<int> {
 protected:
  DType type() const { return static_cast<DType>(GetParam()); }
};

TEST_P(Computed, KeepsTheValuesAsStated) {
  if (computed_type(type()) == type()) GTEST_SKIP() << "has kernels of its own";
  EXPECT_EQ(computed_type(computed_type(type())), computed_type(type()));
  for (const double spread : {0.02, 1.0}) {
    std::vector<std::byte> bytes(static_cast<size_t>(256 * traits(type()).bytes));
    synthesize_groups(type(), 5, spread, 0, 256, bytes.data());
    const auto [stored, computed] = both(type(), bytes);
    double worst = 0, error2 = 0, norm2 = 0;
    for (size_t at = 0; at < stored.size(); at += 32) {
      float largest = 0;
      for (size_t i = at; i < at + 32; ++i) largest = std::max(largest, std::fabs(stored[i]));
      for (size_t i = at; i < at + 32; ++i) {
        const double difference = static_cast<double>(stored[i]) - computed[i];
        worst = std::max(worst, std::fabs(difference) / largest);
        error2 += difference * difference, norm2 += static_cast<double>(stored[i]) * stored[i];
      }
    }
    EXPECT_LE(worst, computed_error(type()) + 1e-7) << "spread " << spread;
    RecordProperty("error", std::to_string(std::sqrt(error2 / norm2)));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Computed, testing::Range(0, kDTypeCount),
                         [](const auto& type) { return std::string(traits(static_cast<DType>(type.param)).name); });

// Any bytes: no trap, and a group whose values are not all finite has one that stays so.
TEST(ComputedHostile, DamageStaysDamage) {
  uint64_t state = 1;
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto type = static_cast<DType>(t);
    if (computed_type(type) == type) continue;
    for (int round = 0; round < 300; ++round) {
      std::vector<std::byte> bytes(static_cast<size_t>(traits(type).bytes));
      for (auto& byte : bytes)
        byte = static_cast<std::byte>((state = state * 6364136223846793005u + 1442695040888963407u) >> 56);
      if (round % 3 == 0) std::ranges::fill(bytes, std::byte{0xff});
      const auto [stored, computed] = both(type, bytes);
      const auto finite = [](float x) { return std::isfinite(x); };
      if (std::ranges::all_of(stored, finite)) continue;
      EXPECT_FALSE(std::ranges::all_of(computed, finite)) << traits(type).name << " round " << round;
    }
  }
}

}  // namespace
}  // namespace llada
