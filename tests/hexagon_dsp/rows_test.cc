// The row kernels and the small ops on the emulated DSP against plain double arithmetic, within what their roundings
// allow (tolerance.h); moves bit for bit.
#include <cmath>
#include <limits>

#include "hexagon_dsp/dsp_test.h"
#include "hexagon_dsp/tolerance.h"
#include "kernels/kernel_test_data.h"

namespace llada::hexagon {
namespace {

using kernels::testing::normal_rows;

class HexagonRows : public DspTest {};

TEST_F(HexagonRows, RmsNormOfOrdinaryAndExtremeRows) {
  constexpr int64_t kRows = 9, kColumns = 100;
  auto x = normal_rows(kRows, kColumns, 1);
  for (int64_t i = 0; i < kColumns; ++i) {
    x[static_cast<size_t>(kColumns + i)] *= 1e30f;       // squares leave the range of float
    x[static_cast<size_t>(2 * kColumns + i)] *= 1e-25f;  // so small that epsilon decides
    x[static_cast<size_t>(3 * kColumns + i)] = 0;
    x[static_cast<size_t>(4 * kColumns + i)] *= 1e-40f;
  }
  const auto weight = normal_rows(1, kColumns, 2);
  constexpr float kEpsilon = 1e-5f;
  WireOp op = make_op(WIRE_RMS_NORM, kRows, kColumns);
  op.in[0] = put(x), op.out[0] = reserve(kRows * kColumns * 4);
  op.weight[0] = put_vector(weight), op.parameter = kEpsilon;
  ASSERT_EQ(run(op).status, WIRE_OK);
  const auto got = get<float>(op.out[0], kRows * kColumns);
  Measured measured("rms_norm");
  for (int64_t r = 0; r < kRows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < kColumns; ++i) sum += std::pow(double{x[static_cast<size_t>(r * kColumns + i)]}, 2);
    for (int64_t i = 0; i < kColumns; ++i) {
      const auto at = static_cast<size_t>(r * kColumns + i);
      const double w = weight[static_cast<size_t>(i)], want = x[at] / std::sqrt(sum / kColumns + double{kEpsilon}) * w;
      EXPECT_WITHIN(measured, got[at], want, rms_norm_bound(kColumns, want, w)) << "row " << r << " element " << i;
    }
  }
}

TEST_F(HexagonRows, HeadNormAndRopeInPlace) {
  constexpr int64_t kRows = 5, kHeads = 3, kDim = 16, kRotary = 8;
  const auto weight = normal_rows(1, kDim, 2);
  Measured norm("head_norm"), rope("rope");
  for (const bool adjacent : {false, true}) {
    const auto x = normal_rows(kRows, kHeads * kDim, 1);
    std::vector<float> table;
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t j = 0; j < kRotary / 2; ++j) table.push_back(static_cast<float>(std::cos(0.3 * double(r * 7 + j))));
      for (int64_t j = 0; j < kRotary / 2; ++j) table.push_back(static_cast<float>(std::sin(0.3 * double(r * 7 + j))));
    }
    WireOp ops[2] = {make_op(WIRE_HEAD_NORM, kRows), make_op(WIRE_ROPE, kRows, kHeads * kDim)};
    for (WireOp& op : ops) {
      op.in[0] = ops[0].in[0].buffer == WIRE_NO_BUFFER ? put(x) : ops[0].in[0];
      op.heads = kHeads, op.head_dim = kDim;
    }
    ops[0].weight[0] = put_vector(weight), ops[0].parameter = 1e-6f;
    ops[1].rotary = kRotary, ops[1].rope_adjacent = adjacent, ops[1].table = put(table);
    // One after the other, each held to what it read.
    ASSERT_EQ(run(ops[0]).status, WIRE_OK);
    const auto normed = get<float>(ops[0].in[0], kRows * kHeads * kDim);
    ASSERT_EQ(run(ops[1]).status, WIRE_OK);
    const auto got = get<float>(ops[0].in[0], kRows * kHeads * kDim);
    for (int64_t v = 0; v < kRows * kHeads; ++v) {
      const auto first = static_cast<size_t>(v * kDim);
      double sum = 0;
      for (size_t i = 0; i < kDim; ++i) sum += std::pow(double{x[first + i]}, 2);
      for (size_t i = 0; i < kDim; ++i) {
        const double want = x[first + i] / std::sqrt(sum / kDim + double{1e-6f}) * weight[i];
        EXPECT_WITHIN(norm, normed[first + i], want, rms_norm_bound(kDim, want, weight[i])) << v << " " << i;
        if (i >= kRotary) {
          EXPECT_EQ(got[first + i], normed[first + i]) << "not rotated";
        }
      }
      for (size_t j = 0; j < kRotary / 2; ++j) {
        const size_t a = first + (adjacent ? 2 * j : j), b = first + (adjacent ? 2 * j + 1 : j + kRotary / 2);
        const double c = table[static_cast<size_t>(v / kHeads * kRotary) + j];
        const double s = table[static_cast<size_t>(v / kHeads * kRotary + kRotary / 2) + j];
        const double p = normed[a], q = normed[b];
        EXPECT_WITHIN(rope, got[a], p * c - q * s, rope_bound(p * c, q * s)) << v << " " << j;
        EXPECT_WITHIN(rope, got[b], q * c + p * s, rope_bound(q * c, p * s)) << v << " " << j;
      }
    }
  }
}

TEST_F(HexagonRows, SwigluFromEndToEnd) {
  std::vector<float> gate, up;
  for (double g = -110; g <= 110; g += 0.37) gate.push_back(static_cast<float>(g));
  for (const float g : {0.0f, -0.0f, 1e-30f, -1e-30f, 5e37f, -5e37f, 1e-45f}) gate.push_back(g);
  up = normal_rows(1, static_cast<int64_t>(gate.size()), 3);
  const auto n = static_cast<uint32_t>(gate.size());
  WireOp op = make_op(WIRE_SWIGLU, 1, n);
  op.in[0] = put(gate), op.in[1] = put(up), op.out[0] = op.in[0];
  ASSERT_EQ(run(op).status, WIRE_OK);
  const auto got = get<float>(op.out[0], n);
  Measured measured("swiglu");
  for (size_t i = 0; i < n; ++i) {
    const double want = gate[i] / (1 + std::exp(-double{gate[i]})) * up[i];
    EXPECT_WITHIN(measured, got[i], want, swiglu_bound(gate[i], up[i], want)) << gate[i];
  }
}

TEST_F(HexagonRows, AddBiasSelectGuideAreExact) {
  constexpr uint32_t kRows = 6, kColumns = 37;
  const auto x = normal_rows(kRows, kColumns, 1), y = normal_rows(kRows, kColumns, 2),
             bias = normal_rows(1, kColumns, 3);
  const std::vector<int32_t> chosen = {5, 0, 2, 2};
  WireOp ops[5] = {make_op(WIRE_ADD, kRows, kColumns), make_op(WIRE_ADD_BIAS, kRows, kColumns),
                   make_op(WIRE_SELECT_ROWS, 4, kColumns), make_op(WIRE_GUIDE, 2, kColumns),
                   make_op(WIRE_GUIDE, 4, kColumns)};
  ops[0].in[0] = put(x), ops[0].in[1] = put(y);
  ops[1].in[0] = ops[0].in[0], ops[1].weight[0] = put_vector(bias);
  ops[2].in[0] = ops[0].in[0], ops[2].out[0] = reserve(4 * kColumns * 4), ops[2].source_rows = kRows;
  ops[2].index = put(chosen);
  ops[3].in[0] = ops[2].out[0], ops[3].out[0] = reserve(2 * kColumns * 4), ops[3].source_rows = 4;
  ops[3].index = put(std::vector<WireGuide>{{0, 2, 2.5f}, {1, 3, 2.5f}});
  ops[4].in[0] = ops[2].out[0], ops[4].out[0] = reserve(4 * kColumns * 4), ops[4].source_rows = 4;
  ops[4].index =
      put(std::vector<WireGuide>{{0, WIRE_NO_ROW, 0}, {1, WIRE_NO_ROW, 0}, {2, WIRE_NO_ROW, 0}, {3, WIRE_NO_ROW, 0}});
  const WireReply reply = run(ops);
  ASSERT_EQ(reply.status, WIRE_OK) << reply.op << " " << reply.detail;
  EXPECT_EQ(reply.op, 5u);
  EXPECT_EQ(reply.sequence, 7u);
  std::vector<float> sum(x.size()), selected, guided;
  for (size_t i = 0; i < x.size(); ++i) sum[i] = (x[i] + y[i]) + bias[i % kColumns];
  for (const int32_t r : chosen) selected.insert(selected.end(), sum.begin() + r * 37, sum.begin() + (r + 1) * 37);
  for (size_t i = 0; i < 2 * kColumns; ++i) {
    const float c = selected[i], u = selected[2 * kColumns + i];
    guided.push_back(u + 2.5f * (c - u));
  }
  EXPECT_EQ(get<float>(ops[0].in[0], kRows * kColumns), sum);
  EXPECT_EQ(get<float>(ops[2].out[0], 4 * kColumns), selected);
  EXPECT_EQ(get<float>(ops[3].out[0], 2 * kColumns), guided);
  EXPECT_EQ(get<float>(ops[4].out[0], 4 * kColumns), selected);
}

TEST_F(HexagonRows, MatmulOfF32WeightsIsARoundingPerTermAway) {
  constexpr int64_t kOutputs = 45, kInputs = 70, kRows = 3;
  const auto stored = kernels::testing::make_weights(DType::F32, kOutputs, kInputs, kernels::testing::Fill::random, 4);
  const auto x = normal_rows(kRows, kInputs, 5);
  WireOp op = make_op(WIRE_MATMUL, kRows, kInputs);
  op.in[0] = put(x), op.out[0] = reserve(kRows * kOutputs * 4);
  op.weight[0] = put_weight(kernels::testing::view(DType::F32, stored, kOutputs, kInputs));
  ASSERT_EQ(run(op).status, WIRE_OK);
  const auto got = get<float>(op.out[0], kRows * kOutputs);
  const auto* w = reinterpret_cast<const float*>(stored.data());
  Measured measured("matmul of F32");
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kOutputs; ++c) {
      double want = 0, products = 0;
      for (int64_t i = 0; i < kInputs; ++i) {
        const double product = double{w[c * kInputs + i]} * x[static_cast<size_t>(r * kInputs + i)];
        want += product, products += std::fabs(product);
      }
      EXPECT_WITHIN(measured, got[static_cast<size_t>(r * kOutputs + c)], want, matmul_f32_bound(kInputs, products))
          << r << " " << c;
    }
}

TEST_F(HexagonRows, ARowDoesNotKnowItsBatchNorTheWorkers) {
  constexpr int64_t kOutputs = 96, kInputs = 256, kRows = 21;
  const auto x = normal_rows(kRows, kInputs, 5);
  for (const DType type : {DType::Q4_0, DType::Q8_0, DType::F16}) {
    const auto stored = kernels::testing::make_weights(type, kOutputs, kInputs, kernels::testing::Fill::random, 4);
    WireOp op = make_op(WIRE_MATMUL, kRows, kInputs);
    op.in[0] = put(x), op.out[0] = reserve(kRows * kOutputs * 4);
    op.weight[0] = put_weight(kernels::testing::view(type, stored, kOutputs, kInputs));
    ASSERT_EQ(run(op, 3).status, WIRE_OK);
    const auto all = get<float>(op.out[0], kRows * kOutputs);
    for (const int64_t r : {0, 6, 20}) {
      WireOp one = op;
      one.rows = 1;
      one.in[0].offset += static_cast<uint32_t>(r * kInputs * 4);
      ASSERT_EQ(run(one, 1).status, WIRE_OK);
      const auto alone = get<float>(op.out[0], kOutputs);
      for (int64_t c = 0; c < kOutputs; ++c)
        ASSERT_EQ(alone[static_cast<size_t>(c)], all[static_cast<size_t>(r * kOutputs + c)]) << traits(type).name;
    }
  }
}

}  // namespace
}  // namespace llada::hexagon
