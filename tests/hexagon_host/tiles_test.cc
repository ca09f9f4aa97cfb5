// The host's kernels over the DSP's tiles: on every instruction set of this processor the bits of the integer oracle,
// whatever the rows, the outputs and the inputs are.
#include "devices/hexagon/host/tiles.h"

#include <gtest/gtest.h>

#include "devices/hexagon/pack.h"
#include "hexagon_dsp/integer_oracle.h"
#include "hexagon_dsp/nasty_rows.h"
#include "kernels/kernel_test_data.h"

namespace llada::hexagon {
namespace {

using kernels::testing::Fill;

struct Matrix {
  DType type;
  dsp::Format format;
  WireLayout layout;
};
constexpr Matrix kMatrices[] = {{DType::Q4_0, dsp::Format::q4, WIRE_TILE_Q4_0},
                                {DType::Q8_0, dsp::Format::q8, WIRE_TILE_Q8_0},
                                {DType::F16, dsp::Format::f16, WIRE_TILE_F16}};

struct Aligned {
  explicit Aligned(size_t bytes) : data(static_cast<uint8_t*>(std::aligned_alloc(128, (bytes + 127) / 128 * 128))) {}
  ~Aligned() { std::free(data); }
  Aligned(const Aligned&) = delete;
  uint8_t* data;
};

// All rows times all outputs, as the module does it: groups of rows, tiles of outputs. Behind each row of y lies a word
// that nobody may touch.
std::vector<float> multiply(const TileKernels& kernels, const Matrix& m, const uint8_t* packed,
                            const std::vector<float>& x, uint32_t rows, uint32_t inputs, uint32_t outputs) {
  const uint32_t most = dsp::most_rows(m.format), stride = outputs + 1;
  Aligned group(dsp::group_bytes(m.format, most, inputs));
  std::vector<uint32_t> work(dsp::blocks_of(inputs));
  std::vector<float> y(size_t{rows} * stride, -7.0f);
  for (uint32_t first = 0; first < rows; first += most) {
    dsp::quantize_group(m.format, x.data(), inputs, rows, inputs, first, work.data(), group.data);
    for (uint32_t n = 0; n < outputs; n += 32)
      kernels.multiply(m.format, {.tile = packed + size_t{n} / 32 * dsp::tile_bytes(m.format, inputs),
                                  .group = group.data,
                                  .rows = std::min(rows - first, most),
                                  .capacity = dsp::group_rows(m.format, rows, first),
                                  .inputs = inputs,
                                  .y = y.data() + size_t{first} * stride + n,
                                  .stride = stride,
                                  .columns = std::min(outputs - n, 32u)});
  }
  for (uint32_t r = 0; r < rows; ++r) EXPECT_EQ(y[size_t{r} * stride + outputs], -7.0f) << "written behind row " << r;
  return y;
}

void expect_the_oracles_bits(const Matrix& m, uint32_t outputs, uint32_t inputs, uint32_t rows, Fill fill) {
  SCOPED_TRACE(fmt::format("{} {}x{}, {} rows", traits(m.type).name, outputs, inputs, rows));
  const auto stored = kernels::testing::make_weights(m.type, outputs, inputs, fill, inputs + outputs);
  const auto view = kernels::testing::view(m.type, stored, outputs, inputs);
  Aligned packed(static_cast<size_t>(layout_bytes(m.layout, outputs, inputs)));
  auto* const bytes = reinterpret_cast<std::byte*>(packed.data);
  ASSERT_FALSE(pack(m.layout, view, 0, outputs, bytes));
  const auto x = nasty_rows(rows, inputs, rows + 5);
  std::vector<float> want;
  std::vector<QuantizedRow> a;
  for (uint32_t r = 0; r < rows; ++r)
    a.push_back(quantize_row_like_dsp(m.layout, x.data() + size_t{r} * inputs, inputs));
  std::vector<PackedOutput> w;
  for (uint32_t n = 0; n < outputs; ++n) w.push_back(unpack_output(m.layout, bytes, n, inputs));
  for (const TileKernels& kernels : tile_kernels()) {
    SCOPED_TRACE(kernels.isa);
    const auto y = multiply(kernels, m, packed.data, x, rows, inputs, outputs);
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t n = 0; n < outputs; ++n) {
        const float got = y[size_t{r} * (outputs + 1) + n];
        const size_t at = size_t{r} * outputs + n;
        if (at == want.size()) want.push_back(product_like_dsp(m.layout, w[n], a[r]));
        ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want[at]))
            << "row " << r << " output " << n << ": " << got << " for " << want[at];
      }
  }
}

TEST(HexagonHostTiles, EveryNumberOfRowsHasTheOraclesBits) {
  for (const Matrix& m : kMatrices)
    for (uint32_t rows = 1; rows <= 33; ++rows) expect_the_oracles_bits(m, 33, 96, rows, Fill::wide);
}

TEST(HexagonHostTiles, EveryBorderOfTilesAndBlocksHasTheOraclesBits) {
  for (const Matrix& m : kMatrices)
    for (const uint32_t outputs : {1u, 31u, 32u, 33u, 63u, 65u})
      for (const uint32_t inputs : {32u, 64u, 480u, 512u, 544u})  // 16 blocks are unpacked at a time
        for (const Fill fill : {Fill::low, Fill::high, Fill::alternate})
          expect_the_oracles_bits(m, outputs, inputs, 9, fill);
}

// Where sums are largest and shifts longest.
TEST(HexagonHostTiles, WideMatricesHaveTheOraclesBits) {
  for (const Matrix& m : kMatrices) expect_the_oracles_bits(m, 32, 12288, 14, Fill::alternate);
}

// Weights that are all zero too, whose product IEEE calls not a number.
TEST(HexagonHostTiles, ARowThatIsNotFiniteHasNoFiniteProduct) {
  for (const Matrix& m : kMatrices)
    for (const TileKernels& kernels : tile_kernels()) {
      constexpr uint32_t kInputs = 64, kOutputs = 32;
      std::vector<float> x(size_t{10} * kInputs, 1.0f);
      x[5 * kInputs + 40] = NAN;
      kernels::testing::Bytes stored(kOutputs * row_bytes(m.type, kInputs));
      quantize_row(m.type, std::vector<float>(kOutputs * kInputs).data(), stored.data(), kOutputs * kInputs);
      Aligned packed(static_cast<size_t>(layout_bytes(m.layout, kOutputs, kInputs)));
      ASSERT_FALSE(pack(m.layout, kernels::testing::view(m.type, stored, kOutputs, kInputs), 0, kOutputs,
                        reinterpret_cast<std::byte*>(packed.data)));
      const auto y = multiply(kernels, m, packed.data, x, 10, kInputs, kOutputs);
      for (size_t r = 0; r < 10; ++r)
        for (size_t n = 0; n < kOutputs; ++n)
          ASSERT_EQ(std::isfinite(y[r * (kOutputs + 1) + n]), r != 5) << kernels.isa << " " << r << " " << n;
    }
}

}  // namespace
}  // namespace llada::hexagon
