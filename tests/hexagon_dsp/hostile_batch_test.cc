// Batches that attack the DSP: ops that write what other ops index with, outputs over inputs, buffers mapped for
// reading or twice, a host that changes the batch or its lists while it runs, calls that race. Each is refused with the
// op and the reason, or computes what the batch said when it began; the process lives on.
#include <atomic>
#include <thread>

#include "hexagon_dsp/dsp_test.h"
#include "kernels/kernel_test_data.h"

namespace llada::hexagon {
namespace {

class HexagonHostile : public DspTest {
 protected:
  static constexpr uint32_t kRows = 4, kColumns = 32, kBytes = kRows * kColumns * 4;

  WireRef numbers(int64_t count, float value) { return put(std::vector<float>(static_cast<size_t>(count), value)); }
  WireOp copy_op(WireRef from, WireRef to, uint32_t rows = kRows, uint32_t columns = kColumns) {
    WireOp op = make_op(WIRE_GUIDE, rows, columns);
    op.in[0] = from, op.out[0] = to, op.source_rows = rows, op.index = put_copies(rows);
    return op;
  }
  WireOp select_op(WireRef index) {
    WireOp op = make_op(WIRE_SELECT_ROWS, kRows, kColumns);
    op.source_rows = kRows, op.index = index;
    op.in[0] = numbers(kRows * kColumns, 1), op.out[0] = numbers(kRows * kColumns, 0);
    return op;
  }
  void expect_refused(const std::vector<WireOp>& ops, uint32_t at, uint32_t detail = WIRE_CHECK_ALIAS,
                      uint32_t status = WIRE_BAD_OP) {
    const std::vector<std::byte> before(memory_->data(), memory_->data() + used_);
    const WireReply reply = run(ops);
    EXPECT_EQ(reply.status, status);
    EXPECT_EQ(reply.detail, detail);
    EXPECT_EQ(reply.op, at);
    EXPECT_EQ(std::memcmp(before.data(), memory_->data(), before.size()), 0) << "an op ran";
  }
  // Long enough that the host can do something meanwhile; it leaves `mark` when it begins.
  std::vector<WireOp> long_work(WireRef mark) {
    std::vector<WireOp> ops = {copy_op(numbers(32, 7), mark, 1)};
    const auto stored = kernels::testing::normal_rows(256, 256, 1);
    const WireRef x = numbers(256, 0.5f), y = reserve(1024), weights = put(stored);
    for (int i = 0; i < 40; ++i) {
      WireOp op = make_op(WIRE_MATMUL, 1, 256);
      op.in[0] = x, op.out[0] = y, op.weight[0] = {weights, WIRE_STORED_F32, 256, 256};
      ops.push_back(op);
    }
    return ops;
  }
  float* floats(WireRef ref) { return reinterpret_cast<float*>(memory_->data() + ref.offset); }
  void wait_for(WireRef mark) {
    while (std::atomic_ref<float>(*floats(mark)).load() != 7) std::this_thread::yield();
  }
};

// A copy writes the list that the next op reads: with indices beyond the source, and beyond the only buffer.
TEST_F(HexagonHostile, AnOpMayNotWriteWhatAnotherIndexesWith) {
  const WireRef index = put(std::vector<int32_t>(kRows * kColumns, 0));
  const WireRef far = put(std::vector<int32_t>(kRows * kColumns, 1 << 20));
  expect_refused({copy_op(far, index), select_op(index)}, 0);
  expect_refused({select_op(index), copy_op(far, index)}, 1);  // an earlier reader is no excuse

  // Spans, and the tokens of a head.
  WireOp store = make_op(WIRE_STORE_KV, kRows, 16);
  store.in[0] = numbers(64, 1), store.in[1] = numbers(64, 1), store.index = put(std::vector<int32_t>{0, 1, 2, 3});
  store.kv.keys = reserve(1024), store.kv.values = reserve(1024);
  store.kv.sequences = 1, store.kv.positions = 8, store.kv.heads = 1, store.kv.head_dim = 16, store.kv.half = 1;
  store.kv.head_stride = store.kv.sequence_stride = 256;
  std::vector<WireSpan> spans(kBytes / sizeof(WireSpan) + 1);
  spans[0] = {0, kRows, 0, 0, 0, 0};
  store.spans = put(spans), store.span_count = 1;
  ASSERT_EQ(run(store).status, WIRE_OK);
  expect_refused({copy_op(far, store.spans), store}, 0);
  WireOp head = make_op(WIRE_HEAD, kRows, 32);
  head.in[0] = numbers(kRows * 32, 1), head.predictions = reserve(kRows * int64_t{sizeof(WirePrediction)});
  head.weight[0] = {put(kernels::testing::normal_rows(40, 32, 1)), WIRE_STORED_F32, 32, 40};
  head.never_sampled = index, head.never_sampled_count = 3;
  ASSERT_EQ(run(head).status, WIRE_OK);
  expect_refused({copy_op(far, index), head}, 0);
}

TEST_F(HexagonHostile, TheSameMemoryUnderTwoNumbersIsTheSameMemory) {
  ASSERT_EQ(dsp_->map(kBuffer + 1, *memory_).status, WIRE_OK);
  const WireRef index = put(std::vector<int32_t>(kRows * kColumns, 0));
  const WireRef far = put(std::vector<int32_t>(kRows * kColumns, 1 << 20));
  expect_refused({copy_op(far, {kBuffer + 1, index.offset}), select_op(index)}, 0);
}

TEST_F(HexagonHostile, OutputsLieApartFromEverythingElse) {
  const WireRef a = numbers(1024, 1), b = numbers(1024, 1);
  const auto within = [](WireRef ref, uint32_t bytes) { return WireRef{ref.buffer, ref.offset + bytes}; };
  const WireWeight vector = {b, WIRE_STORED_F32, kColumns, 1};
  std::vector<WireOp> bad;
  const auto op = [&](WireKind kind) -> WireOp& {
    bad.push_back(make_op(kind, kRows, kColumns));
    bad.back().in[0] = a;
    return bad.back();
  };
  op(WIRE_SELECT_ROWS).out[0] = within(a, 128), bad.back().source_rows = kRows,
  bad.back().index = put(std::vector<int32_t>(4));
  op(WIRE_RMS_NORM).out[0] = within(a, 128), bad.back().weight[0] = vector;
  op(WIRE_RMS_NORM).out[0] = b, bad.back().weight[0] = vector;
  op(WIRE_HEAD_NORM).weight[0] = {a, WIRE_STORED_F32, kColumns, 1}, bad.back().heads = 1,
  bad.back().head_dim = kColumns;
  op(WIRE_ROPE).table = within(a, 4), bad.back().heads = 1, bad.back().head_dim = bad.back().rotary = kColumns;
  op(WIRE_ADD).in[1] = a;
  op(WIRE_ADD_BIAS).weight[0] = {a, WIRE_STORED_F32, kColumns, 1};
  op(WIRE_SWIGLU).in[1] = b, bad.back().out[0] = b;
  op(WIRE_SWIGLU).in[1] = b, bad.back().out[0] = within(a, 128);
  op(WIRE_GUIDE).out[0] = a, bad.back().source_rows = kRows, bad.back().index = put_copies(kRows);
  for (const WireRef out : {a, b}) {  // over the input; over the weights
    op(WIRE_MATMUL).weight[0] = {b, WIRE_STORED_F32, kColumns, 8};
    bad.back().out[0] = out;
  }
  WireOp& twice = op(WIRE_MATMUL);
  twice.weight[0] = twice.weight[1] = {b, WIRE_STORED_F32, kColumns, 8};
  twice.out[0] = twice.out[1] = reserve(1024);
  op(WIRE_HEAD).weight[0] = {b, WIRE_STORED_F32, kColumns, 8};
  bad.back().predictions = within(a, 256);
  op(WIRE_HEAD).weight[0] = {b, WIRE_STORED_F32, kColumns, 8};
  bad.back().predictions = reserve(512), bad.back().logits = within(bad.back().predictions, 64);
  for (const uint32_t values : {0u, 512u}) {  // keys over values, rows over keys
    op(WIRE_STORE_KV).in[1] = b;
    WireOp& store = bad.back();
    store.kv = {.keys = values == 0 ? reserve(1024) : within(a, 256),
                .values = {},
                .sequence_stride = 512,
                .head_stride = 512,
                .sequences = 1,
                .positions = 8,
                .heads = 1,
                .head_dim = kColumns,
                .half = 1,
                .trial = kNowhere};
    store.kv.values = values == 0 ? store.kv.keys : reserve(1024);
    store.index = put(std::vector<int32_t>{0, 1, 2, 3});
    store.spans = put_spans({{0, kRows, 0, 8, 0, 0, 0}}), store.span_count = 1;
  }
  bad.push_back(bad.back());
  WireOp& attention = bad.back();
  attention.kind = WIRE_ATTENTION, attention.heads = 1, attention.head_dim = kColumns, attention.columns = 0,
  attention.parameter = 0.1f, attention.index = put_ranges({{0, kRows, 0, 8, 0, 0, 0}});
  attention.in[0] = b, attention.out[0] = attention.kv.keys;
  for (size_t i = 0; i < bad.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i) + ", kind " + std::to_string(bad[i].kind));
    expect_refused({bad[i]}, 0);
  }
  // What wire.h allows.
  WireOp norm = make_op(WIRE_RMS_NORM, kRows, kColumns), swiglu = make_op(WIRE_SWIGLU, kRows, kColumns);
  norm.in[0] = norm.out[0] = a, norm.weight[0] = vector;
  swiglu.in[0] = swiglu.out[0] = a, swiglu.in[1] = b;
  EXPECT_EQ(run(norm).status, WIRE_OK);
  EXPECT_EQ(run(swiglu).status, WIRE_OK);
}

TEST_F(HexagonHostile, ScratchIsNobodysPlace) {
  WireOp op = copy_op(numbers(kRows * kColumns, 1), {kScratch, 1 << 20});
  expect_refused({op}, 0);
  std::swap(op.in[0], op.out[0]);
  expect_refused({op}, 0);
  expect_refused({select_op({kScratch, 0})}, 0);
}

TEST_F(HexagonHostile, WhatIsMappedForReadingIsNotWritten) {
  SharedBuffer weights(1 << 16);
  ASSERT_EQ(dsp_->map(9, weights, 0, WIRE_MAP_READ_ONLY).status, WIRE_OK);
  const WireRef x = numbers(kRows * kColumns, 1);
  expect_refused({copy_op(x, {9, 0})}, 0, 9, WIRE_BAD_REF);
  EXPECT_EQ(run(copy_op({9, 0}, x)).status, WIRE_OK);
}

TEST_F(HexagonHostile, ListsThatDoNotFitAreRefused) {
  std::vector<WireOp> ops;
  for (uint32_t i = 0; i <= WIRE_MAX_LISTS; ++i) ops.push_back(select_op(put(std::vector<int32_t>(4, 1))));
  expect_refused(ops, WIRE_MAX_LISTS, WIRE_CHECK_LISTS);
  ops.pop_back();
  EXPECT_EQ(run(ops).status, WIRE_OK);
  WireOp head = make_op(WIRE_HEAD, 1, 32);
  head.in[0] = numbers(32, 1), head.predictions = reserve(sizeof(WirePrediction));
  head.weight[0] = {put(kernels::testing::normal_rows(8, 32, 1)), WIRE_STORED_F32, 32, 8};
  head.never_sampled = put(std::vector<int32_t>(WIRE_MAX_LIST_BYTES / 4 + 1, 1));
  head.never_sampled_count = WIRE_MAX_LIST_BYTES / 4 + 1;
  expect_refused({head}, 0, WIRE_CHECK_LISTS);
  --head.never_sampled_count;
  EXPECT_EQ(run(head).status, WIRE_OK);
}

// The host changes what was checked while the batch runs: list and batch are those of its beginning.
TEST_F(HexagonHostile, WhatTheHostChangesMeanwhileDoesNotCount) {
  const WireRef mark = numbers(32, 0), index = put(std::vector<int32_t>{3, 2, 1, 0});
  std::vector<WireOp> ops = long_work(mark);
  const WireOp select = select_op(index), last = copy_op(select.out[0], numbers(kRows * kColumns, 0));
  ops.push_back(select), ops.push_back(last);
  WireReply reply{};
  std::thread runner([&] { reply = run(ops, 1); });
  wait_for(mark);
  const int32_t far = 1 << 20;
  for (int i = 0; i < 4; ++i) std::memcpy(memory_->data() + index.offset + 4 * i, &far, 4);
  auto* theirs = reinterpret_cast<WireOp*>(dsp_->message() + sizeof(WireBatch));
  theirs[ops.size() - 1].kind = 60000;
  theirs[ops.size() - 2].rows = 1024, theirs[ops.size() - 2].columns = 1 << 17;
  reinterpret_cast<WireBatch*>(dsp_->message())->op_count = 4096;
  runner.join();
  EXPECT_EQ(reply.status, WIRE_OK) << reply.detail;
  EXPECT_EQ(reply.op, ops.size());
  EXPECT_EQ(get<float>(last.out[0], kRows * kColumns), std::vector<float>(kRows * kColumns, 1.0f));
  EXPECT_EQ(dsp_->query().magic, WIRE_MAGIC) << "it lives";
}

// Two batches at a time, and a close under a batch.
TEST_F(HexagonHostile, CallsThatRaceWaitOrAreRefused) {
  constexpr uint32_t kOpen = WIRE_OPEN << 24 | 2u << 16 | 1, kClose = WIRE_CLOSE << 24 | 1u << 4;
  constexpr int kBadState = 13;
  const WireRef mark = numbers(32, 0), out = numbers(kRows * kColumns, 0);
  std::vector<WireOp> ops = long_work(mark);
  ops.push_back(copy_op(numbers(kRows * kColumns, 3), out));
  WireReply first{};
  std::thread runner([&] { first = run(ops, 1); });
  wait_for(mark);
  EXPECT_EQ(dsp_->invoke(0x4c4c, kClose, {}, nullptr, 1), kBadState);
  const WireOp other = copy_op(out, numbers(kRows * kColumns, 0));
  const auto bytes = batch(std::span(&other, 1));
  const WireReply second = dsp_->run(bytes.data(), static_cast<uint32_t>(bytes.size()), 1);
  runner.join();
  EXPECT_EQ(first.status, WIRE_OK);
  EXPECT_EQ(second.status, WIRE_OK);
  EXPECT_EQ(get<float>(other.out[0], 1)[0], 3.0f) << "the second began when the first had ended";
  EXPECT_EQ(dsp_->invoke(0x4c4c, kClose, {}, nullptr, 1), 0);
  char name[] = "again";
  uint32_t length = sizeof name;
  uint64_t handle = 0;
  EXPECT_EQ(dsp_->invoke(0, kOpen, {{&length, 4}, {name, length}}, &handle), 0);
}

}  // namespace
}  // namespace llada::hexagon
