// A product whose last tiles another one computes: show, matmul with a pitch, join. The other one is the module on the
// host, as in use, and the bits are those of the product in one piece.
#include "devices/hexagon/divided.h"

#include <atomic>
#include <random>
#include <thread>

#include "hexagon_dsp/dsp_test.h"
#include "kernels/kernel_test_data.h"

namespace llada::hexagon {
namespace {

class HexagonDivided : public DspTest {
 protected:
  void SetUp() override {
    DspTest::SetUp();
    host_too_ = false;
  }
  WireFlags& flags() { return *reinterpret_cast<WireFlags*>(memory_->data() + flags_.offset); }
  void begin() {
    flags_ = reserve(sizeof(WireFlags));
    std::memset(memory_->data() + flags_.offset, 0, sizeof(WireFlags));
  }
  WireReply run_flagged(std::span<const WireOp> ops, bool with_flags = true) {
    auto bytes = batch(ops);
    if (with_flags) reinterpret_cast<WireBatch*>(bytes.data())->flags = flags_;
    return dsp_->run(bytes.data(), static_cast<uint32_t>(bytes.size()));
  }
  // Whether so many ops of this batch are done.
  bool done(uint32_t ops) {
    const uint32_t seen = std::atomic_ref(flags().done).load() - WIRE_DONE(sequence_, 0);
    return seen >= ops && seen <= WIRE_MAX_OPS;
  }
  void say_joined(uint32_t ops) { std::atomic_ref(flags().joined) = WIRE_DONE(sequence_, ops); }

  // A product of x with some weights, and room for its outputs.
  WireOp product(DType type, int64_t rows, int64_t inputs, std::span<const int64_t> outputs, uint32_t seed) {
    WireOp op = make_op(WIRE_MATMUL, static_cast<uint32_t>(rows), static_cast<uint32_t>(inputs));
    std::mt19937 random(seed);
    std::vector<float> x(static_cast<size_t>(rows * inputs));
    for (float& v : x) v = std::uniform_real_distribution<float>(-3, 3)(random);
    op.in[0] = put(x);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto stored =
          kernels::testing::make_weights(type, outputs[i], inputs, kernels::testing::Fill::random, seed + i);
      op.weight[i] = put_weight(kernels::testing::view(type, stored, outputs[i], inputs));
      op.out[i] = reserve(rows * outputs[i] * 4);
    }
    return op;
  }

  WireRef flags_ = kNowhere;
};

TEST_F(HexagonDivided, EverySplitGivesTheBitsOfTheWholeProduct) {
  std::mt19937 random(3);
  const auto any = [&](int64_t least, int64_t most) { return std::uniform_int_distribution(least, most)(random); };
  int divided = 0;
  for (uint32_t round = 0; round < 40; ++round) {
    used_ = 0;
    const DType type = std::array{DType::Q4_0, DType::Q8_0, DType::F16}[round % 3];
    const int64_t rows = any(1, 20), inputs = 32 * any(1, 6);
    std::vector<int64_t> outputs(static_cast<size_t>(any(1, 3)));
    for (int64_t& n : outputs) n = any(33, 260);
    WireOp whole = product(type, rows, inputs, outputs, round);
    ASSERT_EQ(run(whole).status, WIRE_OK);

    HostTiles tiles{};
    for (size_t i = 0; i < outputs.size(); ++i) {
      const int64_t all = (outputs[i] + 31) / 32;
      tiles[i] =
          static_cast<uint32_t>(std::array{int64_t{0}, int64_t{1}, all / 2, all - 1, any(0, all - 1)}[any(0, 4)]);
    }
    if (tiles == HostTiles{}) continue;
    ++divided;
    WireOp op = whole;
    for (size_t i = 0; i < outputs.size(); ++i) op.out[i] = reserve(rows * outputs[i] * 4);
    begin();
    DividedProduct parts = divide_product(op, tiles, kBuffer, kBuffer);
    const WireRef shown = reserve(parts.shown_bytes), columns = reserve(parts.parts_bytes);
    parts.show.out[0] = shown;
    std::vector<WireOp> ops = {parts.show, op};
    for (WireOp& join : parts.joins) join.in[0].offset += columns.offset, ops.push_back(join);

    WireReply reply{};
    std::thread dsp([&] { reply = run_flagged(ops); });
    while (!done(1)) std::this_thread::yield();
    HostModule host(2);
    host.begin_batch();
    WireOp& part = parts.part.op;
    const uint32_t memory = host.number(memory_->data(), memory_->bytes());
    const uint32_t scratch = host.number(host_scratch_->data(), host_scratch_->bytes());
    part.in[0] = {memory, shown.offset};
    for (size_t i = 0; i < parts.joins.size(); ++i) {
      part.weight[i].data.buffer = memory;
      part.out[i] = {memory, part.out[i].offset + columns.offset};
    }
    auto bytes = batch(std::span(&part, 1));
    reinterpret_cast<WireBatch*>(bytes.data())->scratch.buffer = scratch;
    EXPECT_EQ(host.run(bytes).status, WIRE_OK);
    say_joined(static_cast<uint32_t>(ops.size()));
    dsp.join();
    ASSERT_EQ(reply.status, WIRE_OK) << "op " << reply.op << ", detail " << reply.detail;
    for (size_t i = 0; i < outputs.size(); ++i)
      EXPECT_EQ(get<uint32_t>(op.out[i], rows * outputs[i]), get<uint32_t>(whole.out[i], rows * outputs[i]))
          << "round " << round << ", output " << i << ", tiles of the host " << tiles[i];
  }
  EXPECT_GE(divided, 20);
}

// The DSP waits for a word of this very batch, and gives up where the host says so.
TEST_F(HexagonDivided, AJoinWaitsForItsOwnBatchAndEndsWhenTheHostGivesUp) {
  begin();
  WireOp join = make_op(WIRE_JOIN, 2, 32);
  join.in[0] = put(std::vector<float>(64, 5.0f));
  join.out[0] = put(std::vector<float>(128, 1.0f)), join.pitch[0] = 64;
  const std::vector ops = {join};
  std::atomic_ref(flags().joined) = WIRE_DONE(sequence_ - 1, 1);  // another batch's
  WireReply reply{};
  std::atomic<bool> over = false;
  std::thread dsp([&] { reply = run_flagged(ops), over = true; });
  for (const uint32_t early : {WIRE_DONE(sequence_, 0), WIRE_DONE(sequence_ + 1, 0)}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_FALSE(over);
    std::atomic_ref(flags().joined) = early;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(over);
  std::atomic_ref(flags().stop) = 1;
  dsp.join();
  EXPECT_EQ(reply.status, WIRE_NO_PART);
  EXPECT_EQ(reply.op, 0u);
  EXPECT_EQ(get<float>(join.out[0], 128), std::vector<float>(128, 1.0f));
  // The columns between those of the pitch stay.
  std::atomic_ref(flags().stop) = 0;
  say_joined(1);
  EXPECT_EQ(run_flagged(ops).status, WIRE_OK);
  std::vector<float> expected(128, 1.0f);
  for (size_t i = 0; i < 32; ++i) expected[i] = expected[64 + i] = 5.0f;
  EXPECT_EQ(get<float>(join.out[0], 128), expected);
}

TEST_F(HexagonDivided, OpsThatDoNotFitAreRefused) {
  begin();
  say_joined(4);
  const WireRef x = put(std::vector<float>(128, 1.0f)), y = reserve(512);
  const auto refused = [&](const WireOp& op, uint32_t status, uint32_t detail, bool with_flags = true) {
    const WireReply reply = run_flagged(std::span(&op, 1), with_flags);
    EXPECT_EQ(reply.status, status);
    EXPECT_EQ(reply.detail, detail);
  };
  WireOp join = make_op(WIRE_JOIN, 2, 64);
  join.in[0] = x, join.out[0] = y;
  refused(join, WIRE_BAD_REF, WIRE_NO_BUFFER, false);
  join.pitch[0] = 63;
  refused(join, WIRE_BAD_OP, WIRE_CHECK_COLUMNS);
  join.pitch[0] = 0xffffffffu;
  refused(join, WIRE_BAD_OP, WIRE_CHECK_COLUMNS);
  join.pitch[0] = 96;
  join.out[0] = {kBuffer, static_cast<uint32_t>(memory_->bytes()) - 512};
  refused(join, WIRE_BAD_REF, kBuffer);
  join.out[0] = {y.buffer, x.offset + 128};
  refused(join, WIRE_BAD_OP, WIRE_CHECK_ALIAS);
  WireOp show = make_op(WIRE_SHOW, 2, 64);
  show.in[0] = x, show.out[0] = x;
  refused(show, WIRE_BAD_OP, WIRE_CHECK_ALIAS);
  show.out[0] = {y.buffer, y.offset + 4};
  refused(show, WIRE_BAD_OP, WIRE_CHECK_ALIGNMENT);
  WireOp op = product(DType::Q4_0, 2, 32, std::array{int64_t{64}}, 1);
  op.pitch[0] = 32;
  refused(op, WIRE_BAD_OP, WIRE_CHECK_COLUMNS);
}

}  // namespace
}  // namespace llada::hexagon
