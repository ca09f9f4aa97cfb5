// The space that a window leaves beside weights (reserve.h), held to what the DSP asks for and to what the device's
// programs take. The DSP checks a batch before it looks for scratch memory, so asking costs no work.
#include "devices/hexagon/reserve.h"

#include "graph/builder.h"
#include "hexagon_dsp/dsp_test.h"

namespace llada::hexagon {
namespace {

class HexagonReserveTest : public DspTest {
 protected:
  // What the DSP says is missing when there is no scratch memory. Nothing is read but what indexes; outputs lie apart.
  int64_t asked(WireOp op) {
    op.in[0] = op.in[1] = {kBuffer, 0};
    for (WireWeight& w : op.weight) w.data = {kBuffer, 64 << 20};
    op.out[0] = {kBuffer, 112 << 20}, op.predictions = {kBuffer, 136 << 20};
    const WireBatch head = {WIRE_MAGIC, WIRE_VERSION, 7, 1, 0, 0, 0, kNowhere, 0, 0, kNowhere, units_, 0};
    std::vector<std::byte> bytes(sizeof head + sizeof op);
    std::memcpy(bytes.data(), &head, sizeof head);
    std::memcpy(bytes.data() + sizeof head, &op, sizeof op);
    const WireReply reply = dsp_->run(bytes.data(), static_cast<uint32_t>(bytes.size()));
    EXPECT_EQ(reply.status, WIRE_NO_SCRATCH) << op.kind << ": " << reply.detail;
    return reply.detail;
  }
  // The limit for a program of this op alone.
  static int64_t limit(Op op, int32_t rows, std::vector<WeightInfo> infos, std::vector<Attention> attentions = {}) {
    Program program;
    program.shape = plain_shape(rows, rows);
    program.attentions = std::move(attentions);
    for (size_t i = 0; i < infos.size(); ++i) op.weight[i] = static_cast<WeightId>(i);
    program.ops.push_back(op);
    return hexagon_reserve(program, infos, rows).scratch;
  }
  static void expect_close(int64_t limit, int64_t asked, const std::string& what) {
    EXPECT_GE(limit, asked) << what;
    EXPECT_LE(limit, 3 * asked + kFirstScratch) << what << ": room that nobody needs";
  }
};

TEST_F(HexagonReserveTest, ScratchIsEnoughForEveryKernelAndNotMuchMore) {
  start(160 << 20);
  for (const uint32_t rows : {1u, 33u, 1024u})
    for (const WireLayout layout : {WIRE_TILE_Q4_0, WIRE_TILE_Q8_0, WIRE_TILE_F16})
      for (const auto& [inputs, outputs] : {std::pair(256u, 768u), {4096u, 4096u}, {12288u, 1024u}}) {
        WireOp op = make_op(WIRE_MATMUL, rows, inputs);
        op.weight[0] = {{}, layout, inputs, outputs};
        const WeightInfo info{.name = "w", .dims = {inputs, outputs}};
        expect_close(limit({.kind = OpKind::matmul}, static_cast<int32_t>(rows), {info}), asked(op),
                     "matmul " + std::to_string(rows) + " " + std::to_string(layout) + " " + std::to_string(inputs));
        if (inputs == 12288) continue;
        op.kind = WIRE_HEAD;
        op.weight[0].outputs = inputs == 256 ? 20000 : 4000;
        expect_close(limit({.kind = OpKind::head}, static_cast<int32_t>(rows),
                           {{.name = "w", .dims = {inputs, op.weight[0].outputs}}}),
                     asked(op), "head " + std::to_string(rows) + " " + std::to_string(layout));
      }
  start(160 << 20, 1 << 20);
  for (const uint32_t dim : {16u, 32u, 64u, 128u})
    for (const uint32_t group : {1u, 8u}) {
      units_ = group == 8 ? WIRE_UNIT_MATRIX : 0;
      WireOp op = make_op(WIRE_ATTENTION, 32);
      op.heads = static_cast<uint16_t>(2 * group), op.head_dim = static_cast<uint16_t>(dim), op.span_count = 1,
      op.parameter = 1;
      const uint32_t stride = 64 * dim * 2;
      op.kv = {{kBuffer, 0}, {kBuffer, 0}, 2 * stride, stride, 1, 64, 2, dim, 1, kNowhere};
      used_ = 1 << 20;
      op.spans = put_spans({{0, 32, 0, 64, 0, 0, 0}}), op.index = put_ranges({{0, 32, 0, 64, 0, 0, 0}});
      expect_close(limit({.kind = OpKind::attention, .attributes = 0}, 32, {},
                         {{.heads = static_cast<int16_t>(2 * group),
                           .kv_heads = 2,
                           .head_dim = static_cast<int16_t>(dim),
                           .scale = 1}}),
                   asked(op), "attention " + std::to_string(dim) + " " + std::to_string(group));
    }
}

}  // namespace
}  // namespace llada::hexagon
