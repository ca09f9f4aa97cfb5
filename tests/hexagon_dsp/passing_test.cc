// Buffers that come and go while a batch runs: one batch reads more than is mapped at a time.
#include <atomic>
#include <thread>

#include "hexagon_dsp/dsp_test.h"

namespace llada::hexagon {
namespace {

class HexagonPassing : public DspTest {
 protected:
  static constexpr uint32_t kFirst = 10, kSecond = 11;
  static constexpr int64_t kRows = 3, kColumns = 64;

  void SetUp() override {
    DspTest::SetUp();
    if (IsSkipped()) return;
    for (const auto& [buffer, value] : {std::pair(&first_, 2.0f), {&second_, 3.0f}}) {
      *buffer = std::make_unique<SharedBuffer>(1 << 16);
      std::fill_n(reinterpret_cast<float*>((*buffer)->data()), kColumns, value);
    }
    flags_ = reserve(sizeof(WireFlags));
    std::memset(memory_->data() + flags_.offset, 0, sizeof(WireFlags));
    // x + 2 + 3, of biases that lie in the two.
    x_ = put(std::vector<float>(kRows * kColumns, 1.0f));
    for (const uint32_t number : {kFirst, kSecond}) {
      WireOp& op = ops_.emplace_back(make_op(WIRE_ADD_BIAS, kRows, kColumns));
      op.in[0] = x_, op.weight[0] = {{number, 0}, WIRE_STORED_F32, kColumns, 1};
    }
    passing_ = {{kFirst, first_->fd(), 1 << 16, 0}, {kSecond, second_->fd(), 1 << 16, 1}};
  }
  // Ops that are done, of the batch that ran last.
  uint32_t done() { return std::atomic_ref(flags().done).load() & 0xffff; }
  WireFlags& flags() { return *reinterpret_cast<WireFlags*>(memory_->data() + flags_.offset); }
  WireReply run_passing() {
    auto bytes = batch(ops_, 1);
    auto& head = *reinterpret_cast<WireBatch*>(bytes.data());
    head.passing_count = static_cast<uint32_t>(passing_.size()), head.flags = flags_;
    const auto* from = reinterpret_cast<const std::byte*>(passing_.data());
    bytes.insert(bytes.end(), from, from + passing_.size() * sizeof(WirePassing));
    return dsp_->run(bytes.data(), static_cast<uint32_t>(bytes.size()), 1);  // mappings go on the other channel
  }
  void expect_refused(uint32_t status, uint32_t op) {
    const WireReply reply = run_passing();
    EXPECT_EQ(reply.status, status);
    EXPECT_EQ(reply.op, op);
    EXPECT_EQ(flags().done, 0u) << "nothing was done";
  }

  std::unique_ptr<SharedBuffer> first_, second_;
  WireRef flags_, x_;
  std::vector<WireOp> ops_;
  std::vector<WirePassing> passing_;
};

TEST_F(HexagonPassing, ABatchWaitsForABufferAndLetsOneGo) {
  WireReply reply{};
  std::thread runner([&] { reply = run_passing(); });
  EXPECT_EQ(dsp_->map(kFirst, *first_).status, WIRE_OK) << "before or after the batch has begun";
  while (done() < 1) std::this_thread::yield();
  EXPECT_EQ(dsp_->unmap(kBuffer).status, WIRE_BUSY_BUFFER) << "what the batch names otherwise stays";
  EXPECT_EQ(dsp_->unmap(kFirst).status, WIRE_OK) << "though the batch runs";
  EXPECT_EQ(done(), 1u) << "it waits for the second";
  EXPECT_EQ(dsp_->map(kSecond, *second_).status, WIRE_OK);
  runner.join();
  EXPECT_EQ(reply.status, WIRE_OK);
  EXPECT_EQ(done(), 2u);
  EXPECT_EQ(get<float>(x_, kRows * kColumns), std::vector<float>(kRows * kColumns, 6.0f));
  EXPECT_EQ(dsp_->unmap(kSecond).status, WIRE_OK) << "behind the batch";
}

TEST_F(HexagonPassing, AHostThatWillNotMapStopsTheBatch) {
  ASSERT_EQ(dsp_->map(kFirst, *first_).status, WIRE_OK);
  WireReply reply{};
  std::thread runner([&] { reply = run_passing(); });
  while (done() < 1) std::this_thread::yield();
  std::atomic_ref(flags().stop) = 1;
  EXPECT_EQ(dsp_->unmap(kSecond).status, WIRE_BAD_REF) << "wakes the batch";
  runner.join();
  EXPECT_EQ(reply.status, WIRE_BAD_REF);
  EXPECT_EQ(reply.op, 1u);
  EXPECT_EQ(reply.detail, kSecond);
}

TEST_F(HexagonPassing, AnotherBufferThanWasSaidIsRefused) {
  ASSERT_EQ(dsp_->map(kFirst, *second_).status, WIRE_OK);
  expect_refused(WIRE_BAD_REF, 0);
  ASSERT_EQ(dsp_->unmap(kFirst).status, WIRE_OK);
  passing_[0].bytes = 1 << 17;
  ASSERT_EQ(dsp_->map(kFirst, *first_).status, WIRE_OK) << "shorter than was said";
  expect_refused(WIRE_BAD_REF, 0);
}

TEST_F(HexagonPassing, WhatMayGoIsReadOnlyAndNoList) {
  ASSERT_EQ(dsp_->map(kFirst, *first_).status, WIRE_OK);
  passing_[0].last = 1;
  ops_[1].weight[0].data.buffer = kFirst;
  WireOp op = ops_[1];
  ops_[1].in[0] = {kFirst, 0};
  expect_refused(WIRE_BAD_REF, 1);
  ops_[1] = make_op(WIRE_SELECT_ROWS, kRows, kColumns);
  ops_[1].in[0] = x_, ops_[1].out[0] = reserve(kRows * kColumns * 4), ops_[1].source_rows = kRows;
  ops_[1].index = {kFirst, 0};
  expect_refused(WIRE_BAD_REF, 1);
  ops_[1] = op;
  ops_[1].weight[0].data.offset = (1 << 16) - 128;
  expect_refused(WIRE_BAD_REF, 1);
  ops_[1] = op;
  passing_[0].last = 0;
  expect_refused(WIRE_BAD_REF, 1);
  passing_[1] = passing_[0];
  expect_refused(WIRE_BAD_BATCH, 0);
}

TEST_F(HexagonPassing, AUnitThatTheModuleLacksIsRefused) {
  EXPECT_EQ(dsp_->query().units, 0u);
  units_ = WIRE_UNIT_MATRIX;
  passing_.clear();
  expect_refused(WIRE_UNSUPPORTED, 0);
}

}  // namespace
}  // namespace llada::hexagon
