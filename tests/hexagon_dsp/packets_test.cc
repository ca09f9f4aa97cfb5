// Instruction packets per multiply-accumulate, counted by the emulator: independent of the machine and its load, equal
// in every run. Work of two sizes is compared, so that what an op costs once (quantizing activations, the batch) drops
// out; the conversion of sums to floats is included. The table is a regression test: a limit may only go down.
#include <fmt/format.h>

#include <cmath>

#include "hexagon_dsp/dsp_test.h"
#include "kernels/kernel_test_data.h"

namespace llada::hexagon {
namespace {

class HexagonPackets : public DspTest {
 protected:
  HexagonPackets() { host_too_ = false; }

  double matmul_packets(DType type, int64_t n, int64_t k, int64_t rows) {
    const auto stored = kernels::testing::make_weights(type, n, k, kernels::testing::Fill::random, 5);
    WireOp op = make_op(WIRE_MATMUL, static_cast<uint32_t>(rows), static_cast<uint32_t>(k));
    op.in[0] = put(kernels::testing::normal_rows(rows, k, 9));
    op.weight[0] = put_weight(kernels::testing::view(type, stored, n, k));
    op.out[0] = reserve(rows * n * 4);
    const WireReply reply = run(op, 1);
    EXPECT_EQ(reply.status, WIRE_OK);
    EXPECT_GT(reply.packets, 0u);
    return static_cast<double>(reply.packets);
  }
  // Packets of 64 more outputs.
  double of_outputs(DType type, int64_t k, int64_t rows) {
    used_ = 0;
    return matmul_packets(type, 96, k, rows) - matmul_packets(type, 32, k, rows);
  }
};

TEST_F(HexagonPackets, PerMultiplyAccumulateOfEachMatrixKernel) {
  struct Row {
    DType type;
    int64_t rows;
    double loop, all;  // limits: the inner loop alone; with the ends of each tile, at 4096 inputs
  };
  constexpr int64_t kInputs = 4096;
  for (const Row& row : {Row{DType::Q4_0, 4, 0.00550, 0.00583}, Row{DType::Q4_0, 8, 0.00545, 0.00566},
                         Row{DType::Q8_0, 4, 0.00612, 0.00643}, Row{DType::F16, 4, 0.01906, 0.01940}}) {
    const double one = of_outputs(row.type, kInputs, row.rows), two = of_outputs(row.type, 2 * kInputs, row.rows);
    const auto macs = static_cast<double>(64 * kInputs * row.rows);
    const double loop = (two - one) / macs, all = one / macs;
    const std::string name = fmt::format("{}, {} rows", traits(row.type).name, row.rows);
    fmt::print("packets per MAC (emulated), {}: loop {:.6f}, with tile ends {:.6f}\n", name, loop, all);
    EXPECT_LE(loop, row.loop) << name;
    EXPECT_LE(all, row.all) << name;
    EXPECT_GT(loop, 1.0 / 256) << "two multiplies of 32 x 4 bytes per packet are the most there is: a wrong count";
  }
}

class HexagonAttentionPackets : public HexagonPackets {
 protected:
  static constexpr uint32_t kDim = 128, kPositions = 512, kMostRows = 160;

  // One head of 128.
  double attention_packets(uint32_t rows, uint32_t keys) {
    used_ = 0;
    std::vector<uint16_t> store(kPositions * kDim);
    kernels::testing::Random random(3);
    for (uint16_t& h : store) h = float_to_f16(random.normal());
    WireOp op = make_op(WIRE_ATTENTION, rows);
    op.in[0] = put(kernels::testing::normal_rows(rows, kDim, 1)), op.out[0] = reserve(int64_t{rows} * kDim * 4);
    op.heads = 1, op.head_dim = kDim, op.span_count = 1, op.parameter = 1 / std::sqrt(static_cast<float>(kDim));
    // Without sums the scores are what was there before, which may be large.
    if (units_ != 0) op.parameter = 0x1p-20f;
    op.kv = {put(store), put(store), kPositions * kDim * 2, kPositions * kDim * 2, 1, kPositions, 1, kDim, 1, kNowhere};
    op.spans = put_spans({{0, rows, 0, keys, 0, 0, 0}}), op.index = put_ranges({{0, rows, 0, keys, 0, 0, 0}});
    const WireReply reply = run(op, 1);
    EXPECT_EQ(reply.status, WIRE_OK);
    return static_cast<double>(reply.packets);
  }
};

// Of 256 more keys, for 32 rows of one head; scores and mix are two multiply-accumulates per row, key and element.
TEST_F(HexagonAttentionPackets, PerMultiplyAccumulate) {
  const double each = (attention_packets(32, 512) - attention_packets(32, 256)) / (2.0 * 256 * 32 * kDim);
  fmt::print("packets per MAC (emulated), attention, 32 rows of a head of 128: {:.6f}\n", each);
  EXPECT_LE(each, 0.0475);
  EXPECT_GT(each, 1.0 / 64);
}

// Beside the matrix unit: a score, a key and value as tiles, a query with its result. One step of the preset's shape.
TEST_F(HexagonAttentionPackets, PerScoreKeyAndQueryOfTheMatrixUnit) {
  start(32 << 20, 8 << 20);
  dsp_->err(HMX_NO_SUMS);
  units_ = WIRE_UNIT_MATRIX;
  const double small = attention_packets(32, 64), more_keys = attention_packets(32, 192);
  const double more_rows = attention_packets(96, 64), both = attention_packets(96, 192);
  const double score = (both - more_keys - more_rows + small) / (64.0 * 128);
  const double key = (more_keys - small) / 128 - 32 * score, query = (more_rows - small) / 64 - 64 * score;
  fmt::print(
      "packets (emulated) of attention by the matrix unit, a head of 128: {:.2f} a score, {:.1f} a key, {:.0f} a "
      "query\n",
      score, key, query);
  EXPECT_LE(score, 0.55);
  EXPECT_GT(score, 1.0 / 8) << "two scores of 64 in a vector take more than 8 instructions: a wrong count";
  EXPECT_LE(key, 32);
  EXPECT_LE(query, 340);
  for (const uint32_t rows : {1u, 4u, 8u, 32u, 78u, 128u}) {
    units_ = WIRE_UNIT_MATRIX;
    const double unit = attention_packets(rows, 206);
    units_ = 0;
    const double integers = attention_packets(rows, 206), macs = 2.0 * rows * 206 * kDim;
    fmt::print(
        "packets per MAC (emulated), attention, {} rows of a head of 128, 206 keys: matrix unit {:.5f}, integers "
        "{:.5f}\n",
        rows, unit / macs, integers / macs);
    EXPECT_LE(unit, integers / 2) << rows;
  }
}

// Around the matrix unit, whose own work the emulator does not time: 64 more outputs of 4,096 inputs are 256 blocks of
// 32 by 32 weights to widen, with the ends of their tiles; a row more is an end more.
TEST_F(HexagonPackets, PerBlockAndPerResultOfTheMatrixUnit) {
  constexpr int64_t kInputs = 4096;
  start(32 << 20, 8 << 20);
  dsp_->err(HMX_NO_SUMS);
  units_ = WIRE_UNIT_MATRIX;
  struct Row {
    DType type;
    double block;  // limit
  };
  for (const Row& row : {Row{DType::Q4_0, 58.5}, Row{DType::Q8_0, 172}, Row{DType::F16, 191}}) {
    const double few = of_outputs(row.type, kInputs, 9), many = of_outputs(row.type, kInputs, 32);
    const double result = (many - few) / (64 * 23), block = (few - 9 * 64 * result) / (64 * kInputs / 1024);
    fmt::print("packets (emulated) of the matrix unit, {}: {:.1f} to widen 32 x 32 weights, {:.2f} per result\n",
               traits(row.type).name, block, result);
    EXPECT_LE(block, row.block) << traits(row.type).name;
    EXPECT_GT(block, 16) << "16 vectors are stored: a wrong count";
    EXPECT_LE(result, 0.65);
  }
  used_ = 0;
  const double narrow = matmul_packets(DType::Q4_0, 32, kInputs, 32);
  used_ = 0;
  const double wide = matmul_packets(DType::Q4_0, 32, 2 * kInputs, 32);
  const double input = (wide - narrow - of_outputs(DType::Q4_0, kInputs, 32) / 2) / (32 * kInputs);
  fmt::print("packets (emulated) of the matrix unit per input of a row: {:.3f}\n", input);
  EXPECT_LE(input, 0.45);
}

// What the head does with a logit beside its product: the difference between head and matmul, of 4,096 more outputs.
TEST_F(HexagonPackets, PerLogit) {
  constexpr int64_t kInputs = 64, kRows = 8;
  const auto packets = [&](WireKind kind, int64_t outputs) {
    used_ = 0;
    const auto stored =
        kernels::testing::make_weights(DType::Q4_0, outputs, kInputs, kernels::testing::Fill::random, 5);
    WireOp op = make_op(kind, kRows, kInputs);
    op.in[0] = put(kernels::testing::normal_rows(kRows, kInputs, 9));
    op.weight[0] = put_weight(kernels::testing::view(DType::Q4_0, stored, outputs, kInputs));
    if (kind == WIRE_MATMUL)
      op.out[0] = reserve(kRows * outputs * 4);
    else
      op.predictions = reserve(kRows * int64_t{sizeof(WirePrediction)});
    const WireReply reply = run(op, 1);
    EXPECT_EQ(reply.status, WIRE_OK);
    return static_cast<double>(reply.packets);
  };
  for (const uint32_t units : {0u, uint32_t{WIRE_UNIT_MATRIX}}) {
    if (units != 0) start(32 << 20, 8 << 20), dsp_->err(HMX_NO_SUMS);
    units_ = units;
    const double head = packets(WIRE_HEAD, 9216) - packets(WIRE_HEAD, 5120);  // turns of 4,096 tokens
    const double product = packets(WIRE_MATMUL, 9216) - packets(WIRE_MATMUL, 5120);
    const double each = (head - product) / (4096 * kRows);
    fmt::print("packets per logit (emulated), beside its product by the {} unit: {:.2f}\n",
               units != 0 ? "matrix" : "vector", each);
    EXPECT_LE(each, 3);
    EXPECT_GT(each, 0.2);
  }
}

// Rows come in groups of 4 (the last one) and 8: those that fill a group cost next to nothing.
TEST_F(HexagonPackets, RowsThatFillAGroupAreFree) {
  const double of_25 = of_outputs(DType::Q4_0, 4096, 25), of_28 = of_outputs(DType::Q4_0, 4096, 28);
  const double of_29 = of_outputs(DType::Q4_0, 4096, 29), of_32 = of_outputs(DType::Q4_0, 4096, 32);
  fmt::print("packets (emulated) of 64 outputs of 4,096 inputs: {} rows {}, {} {}, {} {}, {} {}\n", 25, of_25, 28,
             of_28, 29, of_29, 32, of_32);
  EXPECT_LE(of_28, 1.005 * of_25);
  EXPECT_LE(of_32, 1.005 * of_29);
  EXPECT_LE(of_32, 1.14 * of_25);
}

}  // namespace
}  // namespace llada::hexagon
