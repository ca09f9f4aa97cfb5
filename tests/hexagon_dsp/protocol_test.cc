// The skel's methods and its refusals: nothing that a host could send harms the DSP, and the reply says what was wrong.
#include <cstdlib>

#include "hexagon_dsp/dsp_test.h"
#include "kernels/kernel_test_data.h"

namespace llada::hexagon {
namespace {

class HexagonProtocol : public DspTest {
 protected:
  WireOp good_op() {
    WireOp op = make_op(WIRE_ADD, 4, 32);
    op.in[0] = put(std::vector<float>(128)), op.in[1] = put(std::vector<float>(128));
    return op;
  }
  void expect(const WireOp& op, uint32_t status, uint32_t detail) {
    const WireOp ops[2] = {good_op(), op};
    const WireReply reply = run(ops);
    EXPECT_EQ(reply.status, status);
    EXPECT_EQ(reply.detail, detail);
    EXPECT_EQ(reply.op, 1u);
  }
};

TEST_F(HexagonProtocol, QueryTellsWhatItIs) {
  const WireInfo info = dsp_->query();
  EXPECT_EQ(info.magic, WIRE_MAGIC);
  EXPECT_EQ(info.version, WIRE_VERSION);
  if (std::getenv("LLADA_DSP_PROGRAM") == nullptr) {
    EXPECT_EQ(info.arch, 67u);
  }
  EXPECT_EQ(info.emulated, 1u);
  EXPECT_GE(info.threads, 1u);
  EXPECT_EQ(info.kinds & (1u << WIRE_ROUTE | 1u << WIRE_EXPERTS), 0u);
  EXPECT_NE(info.kinds & 1u << WIRE_ATTENTION, 0u);
}

TEST_F(HexagonProtocol, BuffersAreMappedOnceAndUnmapped) {
  SharedBuffer more(1 << 16);
  EXPECT_EQ(dsp_->map(kBuffer, more).status, WIRE_BUSY_BUFFER);
  EXPECT_EQ(dsp_->map(WIRE_BUFFERS, more).status, WIRE_BAD_BATCH);
  EXPECT_EQ(dsp_->map(9, more).status, WIRE_OK);
  WireOp op = good_op();
  op.in[1] = {9, 0};
  const float half = 0.5f;
  std::memcpy(more.data(), &half, 4);
  EXPECT_EQ(run(op).status, WIRE_OK);
  EXPECT_EQ(get<float>(op.in[0], 1)[0], 0.5f);
  EXPECT_EQ(dsp_->unmap(9).status, WIRE_OK);
  EXPECT_EQ(dsp_->unmap(9).status, WIRE_BAD_REF);
  expect(op, WIRE_BAD_REF, 9);
}

TEST_F(HexagonProtocol, RefsMustLieInTheirBufferAndBeAligned) {
  WireOp op = good_op();
  op.in[1] = {kBuffer, static_cast<uint32_t>(memory_->bytes() - 384)};
  expect(op, WIRE_BAD_REF, kBuffer);
  op.in[1] = {kBuffer, 0xffffff80u};
  expect(op, WIRE_BAD_REF, kBuffer);
  op.in[1] = {77, 0};
  expect(op, WIRE_BAD_REF, 77);
  op.in[1] = {WIRE_NO_BUFFER, 0};
  expect(op, WIRE_BAD_REF, WIRE_NO_BUFFER);
  op.in[1] = {kBuffer, 64};
  expect(op, WIRE_BAD_OP, WIRE_CHECK_ALIGNMENT);
}

TEST_F(HexagonProtocol, ShapesAndIndicesAreChecked) {
  WireOp op = good_op();
  op.rows = 0;
  expect(op, WIRE_BAD_OP, WIRE_CHECK_ROWS);
  op.rows = WIRE_MAX_ROWS + 1;
  expect(op, WIRE_BAD_OP, WIRE_CHECK_ROWS);
  op = good_op(), op.columns = 0;
  expect(op, WIRE_BAD_OP, WIRE_CHECK_COLUMNS);
  op = good_op(), op.columns = 0xffffffffu;
  expect(op, WIRE_BAD_OP, WIRE_CHECK_COLUMNS);
  op = good_op(), op.kind = WIRE_EXPERTS;
  expect(op, WIRE_UNSUPPORTED, WIRE_EXPERTS);
  op = good_op(), op.kind = 200;
  expect(op, WIRE_UNSUPPORTED, 200);

  op = make_op(WIRE_SELECT_ROWS, 2, 8);
  op.in[0] = reserve(256), op.out[0] = reserve(256), op.source_rows = 3;
  op.index = put(std::vector<int32_t>{0, 3});
  expect(op, WIRE_BAD_OP, WIRE_CHECK_INDEX);
  op.index = put(std::vector<int32_t>{0, -1});
  expect(op, WIRE_BAD_OP, WIRE_CHECK_INDEX);

  op = make_op(WIRE_MATMUL, 2, 64);
  op.in[0] = reserve(512), op.out[0] = reserve(512);
  expect(op, WIRE_BAD_OP, WIRE_CHECK_WEIGHT);
  op.weight[0] = {reserve(4096), 5, 64, 32};  // no WireLayout
  expect(op, WIRE_UNSUPPORTED, 5);
  op.weight[0].layout = WIRE_TILE_Q4_0, op.weight[0].inputs = 96;
  expect(op, WIRE_BAD_OP, WIRE_CHECK_WEIGHT);
  op.weight[0] = {{kBuffer, static_cast<uint32_t>(memory_->bytes() - 1024)}, WIRE_TILE_Q4_0, 64, 32};
  expect(op, WIRE_BAD_REF, kBuffer);
}

TEST_F(HexagonProtocol, KvGeometryIsChecked) {
  WireOp op = make_op(WIRE_STORE_KV, 2, 32);
  op.in[0] = reserve(256), op.in[1] = reserve(256);
  op.kv.keys = reserve(1024), op.kv.values = reserve(1024);
  op.kv.sequences = 1, op.kv.positions = 8, op.kv.heads = 2, op.kv.head_dim = 16, op.kv.half = 1;
  op.kv.head_stride = 256, op.kv.sequence_stride = 512;
  op.index = put(std::vector<int32_t>{0, 7});
  op.spans = put_spans({{0, 2, 0, 8, 0, 0, 0}}), op.span_count = 1;
  ASSERT_EQ(run(op).status, WIRE_OK);
  const WireOp good = op;
  op.index = put(std::vector<int32_t>{0, 8});
  expect(op, WIRE_BAD_OP, WIRE_CHECK_INDEX);
  op = good, op.kv.head_stride = 128;
  expect(op, WIRE_BAD_OP, WIRE_CHECK_KV);
  op = good, op.kv.sequences = 0x10000;
  expect(op, WIRE_BAD_OP, WIRE_CHECK_KV);
  op = good, op.kv.head_stride = 0x80000000u, op.kv.sequence_stride = 0xffffff00u;
  expect(op, WIRE_BAD_OP, WIRE_CHECK_KV);
  op = good, op.spans = put_spans({{0, 2, 1, 8, 0, 0, 0}});
  expect(op, WIRE_BAD_OP, WIRE_CHECK_SPANS);
  op.spans = put_spans({{0, 1, 0, 8, 0, 0, 0}});
  expect(op, WIRE_BAD_OP, WIRE_CHECK_SPANS);
  op.spans = put_spans({{0, 2, 0, 8, 1, 0, 2}});  // a trial without its area
  expect(op, WIRE_BAD_REF, WIRE_NO_BUFFER);
}

TEST_F(HexagonProtocol, RangesOfKeysAndGuidesAreChecked) {
  WireOp op = make_op(WIRE_ATTENTION, 2);
  op.in[0] = reserve(256), op.out[0] = reserve(256), op.heads = 2, op.head_dim = 16, op.parameter = 0.25f;
  op.kv.keys = reserve(1024), op.kv.values = reserve(1024), op.kv.trial = kNowhere;
  op.kv.sequences = 1, op.kv.positions = 8, op.kv.heads = 2, op.kv.head_dim = 16, op.kv.half = 1;
  op.kv.head_stride = 256, op.kv.sequence_stride = 512;
  op.spans = put_spans({{0, 2, 0, 8, 0, 0, 0}}), op.span_count = 1;
  op.index = put(std::vector<WireKeys>{{0, 8}, {7, 8}});
  ASSERT_EQ(run(op).status, WIRE_OK);
  for (const WireKeys bad : {WireKeys{0, 9}, {8, 9}, {3, 3}, {4, 3}, {0, 0}, {0xffffffffu, 8}, {0, 0xffffffffu}}) {
    op.index = put(std::vector<WireKeys>{{0, 8}, bad});
    expect(op, WIRE_BAD_OP, WIRE_CHECK_SPANS);
  }
  WireOp guide = make_op(WIRE_GUIDE, 1, 8);
  guide.in[0] = reserve(128), guide.out[0] = reserve(128), guide.source_rows = 2;
  guide.index = put(std::vector<WireGuide>{{1, 0, 1.0f}});
  ASSERT_EQ(run(guide).status, WIRE_OK);
  for (const WireGuide bad : {WireGuide{2, 0, 1}, {0, 2, 1}, {0, 0xfffffffeu, 1}, {WIRE_NO_ROW, 0, 1}}) {
    guide.index = put(std::vector<WireGuide>{bad});
    expect(guide, WIRE_BAD_OP, WIRE_CHECK_INDEX);
  }
}

TEST_F(HexagonProtocol, BatchesOfAnotherShapeAreRefusedWhole) {
  const WireOp op = good_op();
  auto bytes = batch(std::span(&op, 1));
  const auto status = [&](size_t size) { return dsp_->run(bytes.data(), static_cast<uint32_t>(size)).status; };
  EXPECT_EQ(status(bytes.size()), WIRE_OK);
  EXPECT_EQ(status(bytes.size() - 4), WIRE_BAD_BATCH);
  EXPECT_EQ(status(8), WIRE_BAD_BATCH);
  auto& head = *reinterpret_cast<WireBatch*>(bytes.data());
  head.op_count = 0x10000001;
  EXPECT_EQ(status(bytes.size()), WIRE_BAD_BATCH);
  head.op_count = 1, head.version = 99;
  EXPECT_EQ(status(bytes.size()), WIRE_BAD_BATCH);
  head.version = WIRE_VERSION;
  EXPECT_EQ(status(bytes.size()), WIRE_OK);
}

TEST_F(HexagonProtocol, ScratchThatIsTooSmallIsNamed) {
  const auto stored = kernels::testing::make_weights(DType::Q4_0, 32, 64, kernels::testing::Fill::random, 1);
  WireOp op = make_op(WIRE_MATMUL, 9, 64);
  op.in[0] = put(kernels::testing::normal_rows(9, 64, 1)), op.out[0] = reserve(9 * 32 * 4);
  op.weight[0] = put_weight(kernels::testing::view(DType::Q4_0, stored, 32, 64));
  auto bytes = batch(std::span(&op, 1));
  auto& head = *reinterpret_cast<WireBatch*>(bytes.data());
  head.scratch_bytes = 256;
  const WireReply refused = dsp_->run(bytes.data(), static_cast<uint32_t>(bytes.size()));
  EXPECT_EQ(refused.status, WIRE_NO_SCRATCH);
  head.scratch_bytes = refused.detail - 1;
  EXPECT_EQ(dsp_->run(bytes.data(), static_cast<uint32_t>(bytes.size())).status, WIRE_NO_SCRATCH);
  head.scratch_bytes = refused.detail;
  EXPECT_EQ(dsp_->run(bytes.data(), static_cast<uint32_t>(bytes.size())).status, WIRE_OK);
}

TEST_F(HexagonProtocol, CallsOfAnotherShapeReturnAnErrorNumber) {
  WireInfo info{};
  uint32_t word = 0;
  EXPECT_EQ(dsp_->invoke(0x4c4c, 31u << 24, {}), 20);                                  // no such method
  EXPECT_EQ(dsp_->invoke(0x4c4c, WIRE_QUERY << 24 | 1u << 8, {{&word, 4}}), 14);       // too small a reply
  EXPECT_EQ(dsp_->invoke(1, WIRE_QUERY << 24 | 1u << 8, {{&info, sizeof info}}), 14);  // not the session's handle
  EXPECT_EQ(dsp_->invoke(0x4c4c, WIRE_RUN << 24, {}), 14);
  EXPECT_EQ(dsp_->query().magic, WIRE_MAGIC);  // and it still serves
}

// Closing ends the workers and forgets the buffers; the next session starts anew.
TEST_F(HexagonProtocol, SessionsFollowEachOther) {
  constexpr uint32_t kOpen = WIRE_OPEN << 24 | 2u << 16 | 1, kClose = WIRE_CLOSE << 24 | 1u << 4;
  char name[] = "again";
  uint32_t length = sizeof name, answer = 0;
  uint64_t handle = 0;
  EXPECT_EQ(dsp_->invoke(0, kOpen, {{&length, 4}, {name, length}}, &handle), 2);  // one at a time
  const WireOp op = good_op();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run(op, 3).status, WIRE_OK);
    EXPECT_EQ(dsp_->invoke(0x4c4c, kClose, {}), 0);
    EXPECT_EQ(dsp_->invoke(0x4c4c, WIRE_QUERY << 24 | 1u << 8, {{&answer, 4}}), 14);
    EXPECT_EQ(dsp_->invoke(0, kOpen, {{&length, 4}, {name, length}}, &handle), 0);
    EXPECT_EQ(handle, 0x4c4cu);
    EXPECT_EQ(run(op).status, WIRE_BAD_REF);
    EXPECT_EQ(dsp_->map(kBuffer, *memory_).status, WIRE_OK);
    EXPECT_EQ(dsp_->map(kScratch, *scratch_).status, WIRE_OK);
  }
}

// The guest's address space is a window that really ends: mappings are refused there, with the system's number, and
// what was mapped before stays usable.
TEST_F(HexagonProtocol, TheAddressSpaceEndsWhereItSays) {
  DspProcess small(0x20000000);  // 512 MiB, the program and its stacks included
  ASSERT_TRUE(small.open());
  SharedBuffer slab(64 << 20);
  uint32_t mapped = 0;
  WireReply reply{};
  while (mapped < 16 && (reply = small.map(mapped, slab)).status == WIRE_OK) ++mapped;
  EXPECT_EQ(reply.status, WIRE_MAP_REFUSED);
  EXPECT_EQ(reply.detail, 12u);  // ENOMEM
  EXPECT_GE(mapped, 5u);
  EXPECT_LE(mapped, 7u);
  EXPECT_EQ(small.unmap(0).status, WIRE_OK);
  EXPECT_EQ(small.map(40, slab).status, WIRE_OK);
}

}  // namespace
}  // namespace llada::hexagon
