// Synthesised weights: the spread that was asked for, mean 0, and the same bytes however the work is split.
#include "tensor/synthesize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tensor/quantize.h"

namespace llada {
namespace {

class Synthesize : public testing::TestWithParam<int> {
 protected:
  DType type() const { return static_cast<DType>(GetParam()); }
  std::vector<std::byte> groups(uint64_t key, int64_t first, int64_t last) const {
    std::vector<std::byte> out(static_cast<size_t>((last - first) * traits(type()).bytes));
    synthesize_groups(type(), key, 0.02, first, last, out.data());
    return out;
  }
};

TEST_P(Synthesize, HasMeanZeroAndTheSpreadAskedFor) {
  const int64_t n = 1 << 17, count = n / traits(type()).elements;
  const auto bytes = groups(7, 0, count);
  std::vector<float> values(static_cast<size_t>(n));
  dequantize_row(type(), bytes.data(), values.data(), n);
  double sum = 0, squares = 0, largest = 0;
  for (const float v : values) {
    ASSERT_TRUE(std::isfinite(v));
    sum += v, squares += static_cast<double>(v) * v, largest = std::max<double>(largest, std::fabs(v));
  }
  const double deviation = std::sqrt(squares / static_cast<double>(n));
  EXPECT_NEAR(deviation, 0.02, 0.001);
  EXPECT_NEAR(sum / static_cast<double>(n), 0, 0.0005);
  EXPECT_LT(largest, 0.02 * 3.2);
}

TEST_P(Synthesize, DoesNotDependOnTheSplit) {
  const auto whole = groups(3, 0, 64), tail = groups(3, 20, 64);
  const auto at = static_cast<size_t>(20 * traits(type()).bytes);
  EXPECT_EQ(std::memcmp(whole.data() + at, tail.data(), tail.size()), 0);
  EXPECT_NE(whole, groups(4, 0, 64));
  EXPECT_NE(std::memcmp(whole.data(), tail.data(), tail.size()), 0);
}

INSTANTIATE_TEST_SUITE_P(Types, Synthesize, testing::Range(0, kDTypeCount),
                         [](const auto& type) { return std::string(traits(static_cast<DType>(type.param)).name); });

// Worked by hand from the layout in quantize.cc: scale and min of every sub-group are the same number.
TEST(SynthesizeK, ScalesEqualMins) {
  GroupQ4_K g;
  synthesize_groups(DType::Q4_K, 1, 1.0, 0, 1, reinterpret_cast<std::byte*>(&g));
  for (int j = 0; j < 8; ++j) {
    const int scale = j < 4 ? g.scales[j] & 63 : (g.scales[j + 4] & 15) | (g.scales[j - 4] >> 6) << 4;
    const int min = j < 4 ? g.scales[j + 4] & 63 : g.scales[j + 4] >> 4 | (g.scales[j] >> 6) << 4;
    EXPECT_EQ(scale, min) << j;
    EXPECT_GE(scale, 32) << j;
  }
}

}  // namespace
}  // namespace llada
