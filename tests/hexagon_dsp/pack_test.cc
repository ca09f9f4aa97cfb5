// Packed weights, read back by the words of wire.h, against the definition of their type. Needs no DSP.
#include "devices/hexagon/pack.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hexagon_dsp/integer_oracle.h"
#include "kernels/kernel_test_data.h"

namespace llada::hexagon {
namespace {

using kernels::testing::Fill;

TEST(HexagonPack, TilesHoldTheWeightsWithinTheStatedError) {
  for (const DType type : {DType::Q4_0, DType::Q8_0, DType::F16, DType::BF16})
    for (const Fill fill : {Fill::random, Fill::wide, Fill::low, Fill::alternate}) {
      constexpr int64_t kOutputs = 37, kInputs = 96;
      const auto stored = kernels::testing::make_weights(type, kOutputs, kInputs, fill, 3);
      const auto view = kernels::testing::view(type, stored, kOutputs, kInputs);
      const WireLayout layout = layout_for(type).value();
      std::vector<std::byte> packed(static_cast<size_t>(layout_bytes(layout, kOutputs, kInputs)), std::byte{0xee});
      pack(layout, view, 0, 32, packed.data());
      pack(layout, view, 32, kOutputs, packed.data());
      for (int64_t n = 0; n < kOutputs; ++n) {
        std::vector<float> want(kInputs);
        dequantize_row(type, view.row(n), want.data(), kInputs);
        const PackedOutput got = unpack_output(layout, packed.data(), n, kInputs);
        for (size_t b = 0; b < kInputs / 32; ++b) {
          float most = 0;
          for (size_t i = b * 32; i < b * 32 + 32; ++i) most = std::max(most, std::fabs(want[i]));
          // Exact where the scale is above 1/16 of the largest's power of two; else half a unit of its 16 bits.
          const bool exact = std::abs(got.scales[b]) >= 2048;
          for (size_t i = b * 32; i < b * 32 + 32; ++i) {
            const double bound = layout == WIRE_TILE_F16 ? most * 0x1p-15
                                 : exact                 ? 0
                                                         : std::abs(got.quants[i]) * std::ldexp(0.5, got.exponent - 15);
            ASSERT_NEAR(got.value(i), want[i], bound) << traits(type).name << " output " << n << " input " << i;
          }
        }
      }
      for (int64_t n = kOutputs; n < 64; ++n)
        for (const int scale : unpack_output(layout, packed.data(), n, kInputs).scales) ASSERT_EQ(scale, 0);
    }
}

// The first damaged output, wherever the packing begins.
TEST(HexagonPack, ValuesThatAreNotFiniteAreFound) {
  constexpr int64_t kOutputs = 70, kInputs = 96;
  struct Damage {
    DType type;
    bool vector;
    size_t at;  // byte in a row
    std::vector<uint8_t> bytes;
  };
  const std::vector<uint8_t> nan = {0x01, 0x7e}, infinity = {0x00, 0xfc};
  for (const Damage& d : {Damage{DType::Q4_0, false, 18, nan},
                          {DType::Q4_0, false, 36, infinity},
                          {DType::Q8_0, false, 34, infinity},
                          {DType::F16, false, 40, nan},
                          {DType::F16, false, 42, infinity},
                          {DType::BF16, false, 44, {0x80, 0xff}},
                          {DType::F32, false, 8, {0, 0, 0x80, 0x7f}},
                          {DType::F32, true, 8, {1, 0, 0x80, 0xff}}}) {
    SCOPED_TRACE(traits(d.type).name);
    auto stored = kernels::testing::make_weights(d.type, kOutputs, kInputs, Fill::random, 3);
    const auto view = kernels::testing::view(d.type, stored, kOutputs, kInputs);
    const WireLayout layout = layout_for(d.type, d.vector).value();
    std::vector<std::byte> packed(static_cast<size_t>(layout_bytes(layout, kOutputs, kInputs)));
    EXPECT_FALSE(pack(layout, view, 0, kOutputs, packed.data()));
    for (const int64_t n : {69, 33}) {
      auto* row = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(view.row(n)));
      std::ranges::copy(d.bytes, row + d.at);
      EXPECT_EQ(pack(layout, view, 0, kOutputs, packed.data()), n);
    }
    EXPECT_FALSE(pack(layout, view, 0, 32, packed.data()));
    EXPECT_EQ(pack(layout, view, 64, kOutputs, packed.data()), 69);
  }
}

TEST(HexagonPack, TakesNoMoreRoomThanTheFile) {
  for (const auto& [type, layout] : {std::pair(DType::Q4_0, WIRE_TILE_Q4_0), {DType::Q8_0, WIRE_TILE_Q8_0}}) {
    const int64_t stored = 4096 * row_bytes(type, 12288), packed = layout_bytes(layout, 4096, 12288);
    EXPECT_NEAR(static_cast<double>(packed) / static_cast<double>(stored), 1.0, 0.001);
  }
}

TEST(HexagonPack, OtherTypesHaveNoLayout) {
  EXPECT_FALSE(layout_for(DType::Q4_K));
  EXPECT_FALSE(layout_for(DType::Q6_K));
  EXPECT_FALSE(layout_for(DType::F16, true));
}

}  // namespace
}  // namespace llada::hexagon
