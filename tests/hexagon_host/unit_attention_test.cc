// Attention by the matrix unit's model on the threads of the module in this process has the bits of one thread. Under
// tsan, that its stages are ordered.
// labels of this file: threads
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "devices/hexagon/divided.h"
#include "devices/hexagon/host/module.h"
#include "tensor/half.h"

namespace llada::hexagon {
namespace {

TEST(UnitAttention, HasTheSameBitsOnAnyThreads) {
  constexpr uint32_t kRows = 20, kHeads = 6, kStored = 3, kDim = 32, kKeys = 560, kScratch = 4 << 20;
  struct alignas(128) Line {
    std::byte bytes[128];
  };
  constexpr uint32_t kStore = kStored * kKeys * kDim * 2, kQueries = kRows * kHeads * kDim * 4;
  constexpr uint32_t kQ = 2 * kStore, kOut = kQ + kQueries, kRanges = kOut + kQueries, kSpan = kRanges + 256,
                     kWork = kSpan + 128;
  std::vector<Line> memory((kWork + kScratch) / 128);
  std::byte* const at = memory.data()->bytes;
  const auto number = [](uint32_t i) { return static_cast<float>(static_cast<int>(i * 7919 % 2001) - 1000) / 500; };
  for (uint32_t i = 0; i < kStore; ++i) reinterpret_cast<uint16_t*>(at)[i] = float_to_f16(number(i));
  for (uint32_t i = 0; i < kQueries / 4; ++i) reinterpret_cast<float*>(at + kQ)[i] = number(i + 77);
  for (uint32_t r = 0; r < kRows; ++r) reinterpret_cast<WireKeys*>(at + kRanges)[r] = {r % 3 * 20, kKeys - r % 4 * 9};
  *reinterpret_cast<WireSpan*>(at + kSpan) = {0, kRows, 0, 0, 0, 0};

  const auto attention = [&](int threads, uint32_t units) {
    HostModule module(threads, 1 << 20);
    module.begin_batch();
    const uint32_t buffer = module.number(at, static_cast<int64_t>(memory.size() * 128));
    WireOp op = empty_op();
    op.kind = WIRE_ATTENTION, op.rows = kRows, op.heads = kHeads, op.head_dim = kDim, op.span_count = 1;
    op.parameter = 0.25f;
    op.in[0] = {buffer, kQ}, op.out[0] = {buffer, kOut}, op.index = {buffer, kRanges}, op.spans = {buffer, kSpan};
    op.kv = {{buffer, 0}, {buffer, kStore}, kStore, kStore / kStored, 1, kKeys, kStored, kDim, 1, kNoRef};
    const WireReply reply = run_alone(module, op, {buffer, kWork}, kScratch, units);
    EXPECT_EQ(reply.status, uint32_t{WIRE_OK}) << reply.detail;
    const auto* results = reinterpret_cast<const float*>(at + kOut);
    return std::vector<float>(results, results + kQueries / 4);
  };
  const auto one = attention(1, WIRE_UNIT_MATRIX);
  EXPECT_NE(one, attention(1, 0)) << "the unit was not used";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(attention(4, WIRE_UNIT_MATRIX), one);
}

}  // namespace
}  // namespace llada::hexagon
