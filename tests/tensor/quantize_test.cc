// The stored types against llama.cpp's own library (tests/data/quantize.txt, written by
// tools/make_quantize_fixture.py) and against the properties that every reader relies on.
#include "tensor/quantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tensor/half.h"

namespace llada {
namespace {

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<std::byte> quantized(DType type, const std::vector<float>& values, const float* weights = nullptr) {
  std::vector<std::byte> bytes(static_cast<size_t>(row_bytes(type, static_cast<int64_t>(values.size()))));
  quantize_row(type, values.data(), bytes.data(), static_cast<int64_t>(values.size()), weights);
  return bytes;
}

TEST(Quantize, MatchesThePeerByteForByte) {
  std::ifstream file(LLADA_SOURCE_DIR "/tests/data/quantize.txt");
  std::string operation, name, input, output;
  int quantize_lines = 0, dequantize_lines = 0;
  while (file >> operation >> name >> input >> output) {
    SCOPED_TRACE(operation + " " + name + " " + input.substr(0, 24));
    const auto type = dtype_from_name(name);
    ASSERT_TRUE(type);
    const auto in = from_hex(input), expected = from_hex(output);
    if (operation == "quantize") {
      ++quantize_lines;
      EXPECT_EQ(quantized(*type, floats(in)), expected);
    } else {
      ++dequantize_lines;
      std::vector<float> values(expected.size() / 4);
      dequantize_row(*type, in.data(), values.data(), static_cast<int64_t>(values.size()));
      EXPECT_EQ(0, std::memcmp(values.data(), expected.data(), expected.size()));
    }
  }
  EXPECT_EQ(quantize_lines, 47);
  EXPECT_EQ(dequantize_lines, 25);
}

// Rows with zeros, outliers, denormals, with and without weights; the peer is the library in C.
TEST(Quantize, SearchedTypesMatchThePeerByteForByte) {
  std::ifstream file(LLADA_SOURCE_DIR "/tests/data/quantize_blocks.txt");
  std::string kind, name, bytes, more, row;
  std::vector<float> values, weights;
  int plain = 0, weighted = 0;
  while (file >> kind >> name >> bytes >> more) {
    if (kind == "row") {
      row = name;
      values = floats(from_hex(bytes));
      weights = floats(from_hex(more));
      continue;
    }
    ++(kind == "plain" ? plain : weighted);
    const auto type = dtype_from_name(name);
    ASSERT_TRUE(type && can_quantize(*type)) << name;
    EXPECT_EQ(quantized(*type, values, kind == "plain" ? nullptr : weights.data()), from_hex(bytes))
        << kind << " " << name << " of " << row;
  }
  EXPECT_EQ(plain, 168);
  EXPECT_EQ(weighted, 168);
}

// A weight that dwarfs the others draws the error away from its place.
TEST(Quantize, WeightsMoveTheErrorElsewhere) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (int t = 0; t < kFileTypeCount; ++t) {
    const auto type = static_cast<DType>(t);
    if (!can_quantize(type) || type < DType::Q4_0) continue;
    double with = 0, without = 0;
    for (int round = 0; round < 50; ++round) {
      std::vector<float> values(256), weights(256), back(256);
      for (size_t i = 0; i < 256; ++i) {
        values[i] = normal(random);
        weights[i] = i % 16 == 3 ? 1000.0f : 1.0f;
      }
      const auto error = [&](const float* given) {
        dequantize_row(type, quantized(type, values, given).data(), back.data(), 256);
        double sum = 0;
        for (size_t i = 0; i < 256; ++i) sum += weights[i] * (values[i] - back[i]) * (values[i] - back[i]);
        return sum;
      };
      with += error(weights.data());
      without += error(nullptr);
    }
    EXPECT_LT(with, 0.8 * without) << traits(type).name;
  }
}

// How far a value may move: half a step of the group's scale, and the rounding of the stored scale.
TEST(Quantize, ErrorIsBoundedByTheStep) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  struct Case {
    DType type;
    float steps;  // of the range [-amax, amax]
  };
  for (const Case c : {Case{DType::Q8_0, 254}, Case{DType::Q4_0, 16}, Case{DType::Q4_1, 15}, Case{DType::Q5_0, 32},
                       Case{DType::Q5_1, 31}}) {
    for (int round = 0; round < 200; ++round) {
      std::vector<float> values(32), back(32);
      float amax = 0;
      for (float& value : values) amax = std::max(amax, std::fabs(value = normal(random)));
      const auto bytes = quantized(c.type, values);
      dequantize_row(c.type, bytes.data(), back.data(), 32);
      // The signed types clip the end opposite to the extreme value: up to a whole step there.
      const float step = 2 * amax / c.steps;
      for (int i = 0; i < 32; ++i)
        ASSERT_LE(std::fabs(values[i] - back[i]), step * 1.01f + amax * 0.002f) << traits(c.type).name;
    }
  }
}

TEST(Quantize, QuantizingTwiceChangesNothing) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> values(64), once(64);
  for (float& value : values) value = normal(random);
  const auto first = quantized(DType::Q8_0, values);
  dequantize_row(DType::Q8_0, first.data(), once.data(), 64);
  std::vector<float> twice(64);
  dequantize_row(DType::Q8_0, quantized(DType::Q8_0, once).data(), twice.data(), 64);
  for (int i = 0; i < 64; ++i) EXPECT_NEAR(once[i], twice[i], std::fabs(once[i]) * 1e-3 + 1e-6);
}

TEST(Quantize, TwoEqualExtremesTakeTheFirstOnesSign) {
  std::vector<float> values(32, 0.0f);
  values[3] = 2.0f;
  values[9] = -2.0f;
  GroupQ4_0 group;
  std::memcpy(&group, quantized(DType::Q4_0, values).data(), sizeof group);
  EXPECT_EQ(f16_to_float(group.d), -0.25f);
  values[3] = -2.0f;
  values[9] = 2.0f;
  std::memcpy(&group, quantized(DType::Q4_0, values).data(), sizeof group);
  EXPECT_EQ(f16_to_float(group.d), 0.25f);
}

TEST(Quantize, HostileFloatsDoNotTrap) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const float odd : {nan, inf, -inf, 3.4e38f, 1e-45f, -1e-45f}) {
    std::vector<float> values(256, 1.0f), weights(256, odd);
    values[5] = odd;
    values[20] = -odd;
    for (int t = 0; t < kDTypeCount; ++t) {
      const auto type = static_cast<DType>(t);
      if (can_quantize(type)) {
        EXPECT_EQ(static_cast<int64_t>(quantized(type, values).size()), row_bytes(type, 256));
        EXPECT_EQ(quantized(type, values, weights.data()).size(), quantized(type, values).size());
      }
    }
  }
}

TEST(Quantize, AnyBytesDequantize) {
  std::mt19937 random(3);
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto type = static_cast<DType>(t);
    std::vector<std::byte> bytes(static_cast<size_t>(traits(type).bytes) * 16 + 1);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    std::vector<float> values(static_cast<size_t>(traits(type).elements) * 16);
    dequantize_row(type, bytes.data() + 1, values.data(),
                   static_cast<int64_t>(values.size()));  // at an odd address
    std::vector<float> aligned(values.size());
    std::vector<std::byte> copy(bytes.begin() + 1, bytes.end());
    dequantize_row(type, copy.data(), aligned.data(), static_cast<int64_t>(values.size()));
    EXPECT_EQ(0, std::memcmp(values.data(), aligned.data(), values.size() * 4)) << traits(type).name;
  }
}

TEST(Half, EveryF16RoundTrips) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = f16_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(value))));
    } else {
      ASSERT_EQ(float_to_f16(value), half);
    }
  }
}

// The nearest of the two F16 neighbours, ties to the even one: checked against exact arithmetic in double.
TEST(Half, F16RoundsToNearestEven) {
  std::mt19937 random(4);
  for (int i = 0; i < 200000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()) & 0x477fffffu);  // up to 65504 and a bit
    const uint16_t half = float_to_f16(value);
    const double got = f16_to_float(half), below = half > 0 ? f16_to_float(static_cast<uint16_t>(half - 1)) : 0.0;
    if (std::isinf(got)) {
      ASSERT_GE(value, 65520.0f);
      continue;
    }
    const double above = half == 0x7bff ? 65536.0 : f16_to_float(static_cast<uint16_t>(half + 1));
    ASSERT_LE(std::fabs(value - got), std::fabs(value - below));
    ASSERT_LE(std::fabs(value - got), std::fabs(value - above));
    const bool tie = std::fabs(value - got) == std::fabs(value - above) ||
                     (half > 0 && std::fabs(value - got) == std::fabs(value - below));
    if (tie) {
      ASSERT_EQ(half & 1, 0);
    }
  }
}

TEST(DType, NamesAndSizes) {
  for (int t = 0; t < kFileTypeCount; ++t)
    EXPECT_EQ(dtype_from_name(traits(static_cast<DType>(t)).name), static_cast<DType>(t));
  EXPECT_EQ(dtype_from_name("Q4_K"), DType::Q4_K);
  EXPECT_FALSE(dtype_from_name("q8_k"));
  EXPECT_FALSE(dtype_from_name(traits(DType::Q8_M).name)) << "no type of files";
  EXPECT_EQ(row_bytes(DType::Q4_0, 4096), 2304);
  EXPECT_EQ(row_bytes(DType::Q6_K, 512), 420);
}

}  // namespace
}  // namespace llada
