// Matrix products on the emulated DSP: bit for bit those of the integer oracle, and within the derived tolerance of the
// exact products of the file's weights.
#include <cmath>

#include "hexagon_dsp/dsp_test.h"
#include "hexagon_dsp/nasty_rows.h"
#include "hexagon_dsp/tolerance.h"
#include "kernels/kernel_test_data.h"

namespace llada::hexagon {
namespace {

using kernels::testing::Fill;

class HexagonMatmul : public DspTest, public testing::WithParamInterface<ProductCase> {};

TEST_P(HexagonMatmul, EqualsTheIntegerOracleBitForBitAndTheExactProductNearly) {
  const auto [type, n, k, rows, fill] = GetParam();
  const auto stored = kernels::testing::make_weights(type, n, k, fill, 5);
  const auto view = kernels::testing::view(type, stored, n, k);
  const auto x = nasty_rows(rows, k, 9);
  WireOp op = make_op(WIRE_MATMUL, static_cast<uint32_t>(rows), static_cast<uint32_t>(k));
  op.in[0] = put(x);
  op.weight[0] = put_weight(view);
  op.out[0] = reserve(rows * n * 4);
  const WireReply reply = run(op);
  ASSERT_EQ(reply.status, WIRE_OK) << reply.detail;
  const auto y = get<float>(op.out[0], rows * n);

  const uint32_t layout = op.weight[0].layout;
  const std::byte* packed = memory_->data() + op.weight[0].data.offset;
  std::vector<QuantizedRow> a;
  for (int64_t r = 0; r < rows; ++r) a.push_back(quantize_row_like_dsp(layout, x.data() + r * k, k));
  std::vector<float> exact(static_cast<size_t>(k));
  Measured measured(std::string("matmul of ") + std::string(traits(type).name));
  for (int64_t c = 0; c < n; ++c) {
    const PackedOutput w = unpack_output(layout, packed, c, k);
    dequantize_row(type, view.row(c), exact.data(), k);
    for (int64_t r = 0; r < rows; ++r) {
      const auto at = static_cast<size_t>(r * n + c);
      const QuantizedRow& q = a[static_cast<size_t>(r)];
      const float* row = x.data() + r * k;
      ASSERT_EQ(std::bit_cast<uint32_t>(y[at]), std::bit_cast<uint32_t>(product_like_dsp(layout, w, q)))
          << "row " << r << " output " << c << ": " << y[at] << " for " << product_like_dsp(layout, w, q);
      // The weights of the file times the activations, which for integer weights are those that the cpu's kernels have.
      double want = 0;
      for (int64_t i = 0; i < k; ++i) {
        const auto b = static_cast<size_t>(i / 32);
        want += exact[static_cast<size_t>(i)] *
                (layout == WIRE_TILE_F16 ? double{row[i]} : q.quants[static_cast<size_t>(i)] * q.steps[b]);
      }
      EXPECT_WITHIN(measured, y[at], want, tile_bound(layout, w, q, row)) << "row " << r << " output " << c;
    }
  }
}

// Also with weights that are all zero, whose product IEEE calls not a number.
class HexagonDamage : public DspTest {};
TEST_F(HexagonDamage, ARowThatIsNotFiniteHasNoFiniteProductAndNoNeighbours) {
  for (const DType type : {DType::Q4_0, DType::Q8_0, DType::F16, DType::F32})
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      SCOPED_TRACE(std::string(traits(type).name) + " " + std::to_string(bad));
      used_ = 0;
      constexpr int64_t kRows = 10, kInputs = 96, kOutputs = 40;
      std::vector<float> weights(kOutputs * kInputs);
      kernels::testing::Random random(4);
      for (size_t i = 7 * kInputs; i < weights.size(); ++i) weights[i] = random.normal();  // the first 7 outputs: zeros
      kernels::testing::Bytes stored(kOutputs * row_bytes(type, kInputs));
      quantize_row(type, weights.data(), stored.data(), kOutputs * kInputs);
      auto x = kernels::testing::normal_rows(kRows, kInputs, 1);
      x[5 * kInputs + 70] = bad;
      WireOp op = make_op(WIRE_MATMUL, kRows, kInputs);
      op.in[0] = put(x), op.out[0] = reserve(kRows * kOutputs * 4);
      op.weight[0] = put_weight(kernels::testing::view(type, stored, kOutputs, kInputs));
      ASSERT_EQ(run(op).status, WIRE_OK);
      const auto y = get<float>(op.out[0], kRows * kOutputs);
      for (size_t i = 0; i < y.size(); ++i)
        ASSERT_EQ(std::isfinite(y[i]), i / kOutputs != 5) << i / kOutputs << " " << i % kOutputs;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, HexagonMatmul,
    testing::Values(
        ProductCase{DType::Q4_0, 64, 256, 32}, ProductCase{DType::Q4_0, 33, 96, 7}, ProductCase{DType::Q4_0, 32, 32, 1},
        ProductCase{DType::Q4_0, 31, 64, 4, Fill::low}, ProductCase{DType::Q4_0, 32, 4096, 9, Fill::low},
        ProductCase{DType::Q4_0, 32, 12288, 8, Fill::alternate}, ProductCase{DType::Q4_0, 40, 128, 13, Fill::high},
        ProductCase{DType::Q8_0, 64, 256, 32}, ProductCase{DType::Q8_0, 33, 96, 7}, ProductCase{DType::Q8_0, 32, 32, 1},
        ProductCase{DType::Q8_0, 32, 4096, 9, Fill::low}, ProductCase{DType::Q8_0, 32, 12288, 8, Fill::alternate},
        ProductCase{DType::F16, 64, 256, 9}, ProductCase{DType::F16, 33, 96, 5}, ProductCase{DType::BF16, 32, 64, 3}),
    testing::PrintToStringParamName());

}  // namespace
}  // namespace llada::hexagon
